# SPDX-License-Identifier: MIT
TSA_CORE_SOURCES = src/call.h src/engine_fold_tmpl.h src/engine_gates_tmpl.h src/engine_item_tmpl.h \
	src/engine_merge_tmpl.h src/engine_output_tmpl.h src/engine_pass_tmpl.h \
	src/engine_prefetch_tmpl.h src/engine_prefill_tmpl.h src/engine_relay_tmpl.h \
	src/engine_rows_tmpl.h src/engine_softmax_ranges_tmpl.h src/engine_softmax_rows_tmpl.h \
	src/engine_softmax_tmpl.h src/engine_team_tmpl.h src/engine_tiles_tmpl.h src/engine_tmpl.h \
	src/engine_token_tmpl.h src/engine_views_tmpl.h src/engine_wave_tmpl.h src/fpenv.h \
	src/internal.h src/measure.h src/schedule.h src/team.h src/tuning.h src/attention.c src/check.c \
	src/check_values.c src/choices.c src/constants.c src/cpu.c src/engine_f32.c src/engine_f64.c \
	src/facts.c src/memory.c src/monomials.c src/plan.c src/plan_describe.c src/process.c src/rest.c \
	src/schedule.c src/schedule_rows.c src/scratch.c src/sizes.c src/sphere.c src/state.c src/state_copy.c \
	src/state_memory.c src/state_merge.c src/status.c src/team.c src/threads.c src/workspace.c
