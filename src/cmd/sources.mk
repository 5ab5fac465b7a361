# SPDX-License-Identifier: MIT
TSA_CMD_SOURCES =
