/* SPDX-License-Identifier: MIT */
/* The rules by which `tsa paper` judges a figure, at their edges. */
#include <math.h>
#include <string.h>

#include "cmd.h"
#include "paper/paper.h"
#include "support.h"

static struct paper_experiment experiment;

/* The one figure that a rule has made; the next rule begins anew. */
static struct paper_figure taken(void)
{
    ck_assert_uint_eq(experiment.figure_count, 1);
    experiment.figure_count = 0;
    return experiment.figures[0];
}

#define VERDICT(verdict_) ck_assert_int_eq(taken().verdict, (verdict_))

/* Draws of 1, 2, ... 20. */
static void count_up(double *values)
{
    for (size_t s = 0; s < PAPER_SEEDS; s++)
        values[s] = (double)s + 1;
}

START_TEST(exact_facts)
{
    paper_equal(&experiment, "", 5, 5, 5);
    VERDICT(PAPER_REPRODUCED);
    paper_equal(&experiment, "", 5, 5, nextafter(5, 6));
    VERDICT(PAPER_DIFFERS);
    paper_equal(&experiment, "", NAN, 5, 5);
    VERDICT(PAPER_HOLDS);
    paper_equal(&experiment, "", NAN, 5, NAN);
    VERDICT(PAPER_FAILS);
    paper_at_most(&experiment, "", 1, 1);
    VERDICT(PAPER_HOLDS);
    paper_at_most(&experiment, "", 1, nextafter(1, 2));
    VERDICT(PAPER_FAILS);
    paper_at_most(&experiment, "", 1, NAN);
    VERDICT(PAPER_FAILS);
    paper_at_least(&experiment, "", 1, 1);
    VERDICT(PAPER_HOLDS);
    paper_at_least(&experiment, "", 1, NAN);
    ck_assert(experiment.figures[0].exact);
    VERDICT(PAPER_FAILS);
}
END_TEST

START_TEST(spreads)
{
    double values[PAPER_SEEDS];
    count_up(values);
    const struct paper_spread s = paper_spread_of(values, PAPER_SEEDS);
    ck_assert(s.first == 1 && s.low == 1 && s.high == 20 && s.median == 10.5);
    ck_assert_double_eq_tol(s.deviation, sqrt(35), 1e-12); /* n (n + 1) / 12 */
    ck_assert(paper_spread_of(values, 1).deviation == 0);
    paper_drawn(&experiment, "", 20, &s, NULL);
    VERDICT(PAPER_REPRODUCED);
    paper_drawn(&experiment, "", nextafter(20, 21), &s, NULL);
    VERDICT(PAPER_DIFFERS);
    paper_rounding(&experiment, "", 10.5 / 4, &s);
    VERDICT(PAPER_REPRODUCED);
    paper_rounding(&experiment, "", nextafter(10.5 / 4, 0), &s);
    VERDICT(PAPER_WORSE);
    paper_rounding(&experiment, "", NAN, &s);
    VERDICT(PAPER_NO_FIGURE);
}
END_TEST

/* A range wants more than half of the draws inside, by any measure. */
START_TEST(ranges)
{
    struct paper_measures by = {.count = 2, .names = {"one", "two"}};
    for (size_t s = 0; s < PAPER_SEEDS; s++)
        by.values[0][s] = NAN;
    count_up(by.values[1]);
    paper_within_by(&experiment, "", 11, 20, &by);
    VERDICT(PAPER_DIFFERS);
    paper_within_by(&experiment, "", 10, 20, &by);
    const struct paper_figure f = taken();
    ck_assert_int_eq(f.verdict, PAPER_REPRODUCED);
    ck_assert_str_eq(f.why, "by two; one: 0 of 20 lie within 10 to 20, two: 11 of 20 lie within 10 "
                            "to 20");
    ck_assert(f.low == 1 && f.high == 20);
    paper_drawn_by(&experiment, "", 20, &by);
    VERDICT(PAPER_REPRODUCED);
    paper_drawn_by(&experiment, "", 21, &by);
    VERDICT(PAPER_DIFFERS);
}
END_TEST

START_TEST(claims_and_speeds)
{
    paper_claim(&experiment, "", PAPER_SEEDS / 2);
    VERDICT(PAPER_DIFFERS);
    paper_claim(&experiment, "", PAPER_SEEDS / 2 + 1);
    VERDICT(PAPER_REPRODUCED);
    paper_speed(&experiment, "", 4, 5, PAPER_MORE_IS_BETTER, NULL);
    VERDICT(PAPER_REPRODUCED);
    paper_speed(&experiment, "", 4, 5.01, PAPER_MORE_IS_BETTER, NULL);
    VERDICT(PAPER_BETTER);
    paper_speed(&experiment, "", 4, 5.01, PAPER_LESS_IS_BETTER, NULL);
    VERDICT(PAPER_WORSE);
    paper_speed(&experiment, "", 4, 3.2, PAPER_LESS_IS_BETTER, NULL);
    VERDICT(PAPER_REPRODUCED);
    paper_speed(&experiment, "", 4, 3.19, PAPER_LESS_IS_BETTER, NULL);
    VERDICT(PAPER_BETTER);
    paper_speed(&experiment, "", 4, 3.19, PAPER_MORE_IS_BETTER, "why");
    ck_assert_ptr_nonnull(strstr(experiment.figures[0].why, "why"));
    VERDICT(PAPER_WORSE);
    paper_speed(&experiment, "", 4, NAN, PAPER_MORE_IS_BETTER, NULL);
    VERDICT(PAPER_DIFFERS);
    paper_exponent(&experiment, "", 1, 1, 1.25);
    VERDICT(PAPER_REPRODUCED);
    paper_exponent(&experiment, "", 0, 0, 0.06);
    VERDICT(PAPER_DIFFERS);
    paper_exponent(&experiment, "", 1, 1, NAN);
    VERDICT(PAPER_DIFFERS);
    paper_growth(&experiment, "", 3.4, 4, 3.7);
    VERDICT(PAPER_REPRODUCED);
    paper_growth(&experiment, "", 3.4, 4, 4);
    VERDICT(PAPER_DIFFERS);
    paper_exponent(&experiment, "", 1, 1, 0.996); /* no "-0.00" */
    ck_assert_ptr_null(strstr(taken().why, "-0.00"));
}
END_TEST

START_TEST(numbers)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {{NAN, ""},          {-0.0, "0"},           {9945, "9,945"},
                 {1795.4, "1,795"},  {999.96, "1,000"},     {-1795.4, "-1,795"},
                 {0.0123, "0.0123"}, {6.5e-4, "6.500e-04"}, {39847.2, "39,847"},
                 {INFINITY, "inf"}};
    char text[CMD_NUMBER_TEXT];
    for (size_t i = 0; i < PAPER_COUNT(cases); i++)
        ck_assert_str_eq(paper_number(cases[i].x, text), cases[i].text);
}
END_TEST

/* Names of columns are cut at each |; the series of a plot end with 0. */
START_TEST(tables_and_plots)
{
    struct paper_table *t = paper_table(&experiment, "part", "title", "N|a, ms|b / c");
    ck_assert_uint_eq(t->columns, 3);
    ck_assert_str_eq(t->heads[0], "N");
    ck_assert_str_eq(t->heads[1], "a, ms");
    ck_assert_str_eq(t->heads[2], "b / c");
    PAPER_ROW(t, 1, 2.5);
    ck_assert_uint_eq(t->rows, 1);
    ck_assert(paper_cell_value(t, 0, 1) == 2.5 && isnan(paper_cell_value(t, 0, 2)));
    const struct paper_plot *p =
        paper_plot(&experiment, "time", "title", "ms", PAPER_LOG_Y, (size_t[]){2, 1, 0});
    ck_assert(p->y[0] == 2 && p->y[1] == 1 && p->y[2] == 0);
    paper_experiment_clear(&experiment);
    ck_assert_uint_eq(experiment.table_count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paper");
    TCase *rules = add_case(suite, "rules");
    tcase_add_test(rules, exact_facts);
    tcase_add_test(rules, spreads);
    tcase_add_test(rules, ranges);
    tcase_add_test(rules, claims_and_speeds);
    tcase_add_test(rules, numbers);
    tcase_add_test(rules, tables_and_plots);
    return run_suite(suite);
}
