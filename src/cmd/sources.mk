# SPDX-License-Identifier: MIT
TSA_CMD_SOURCES = src/cmd/attend.h src/cmd/cmd.h src/cmd/feed.h src/cmd/npy.h src/cmd/output.h \
	src/cmd/progress.h src/cmd/attend.c src/cmd/common.c src/cmd/demo.c src/cmd/feed.c \
	src/cmd/info.c src/cmd/input.c src/cmd/main.c src/cmd/mixed.c src/cmd/npy.c src/cmd/output.c \
	src/cmd/progress.c src/cmd/range.c src/cmd/recurrence.c src/cmd/report.c src/cmd/size.c
