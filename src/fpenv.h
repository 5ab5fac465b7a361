/* SPDX-License-Identifier: MIT */
/* The floating-point mode of the arithmetic: every thread that computes enters it, and puts the
 * caller's mode back before it leaves. */
#ifndef TSA_FPENV_H
#define TSA_FPENV_H

#include <stdint.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <fenv.h>
#endif

struct tsa_fpenv {
#if defined(__SSE2__)
    unsigned control;
#elif defined(__aarch64__)
    uint64_t control, status;
#else
    fenv_t environment;
#endif
};

/* Round to nearest, keep denormals, mask all exceptions; returns what was set before. */
static inline struct tsa_fpenv tsa_fpenv_enter(void)
{
    struct tsa_fpenv saved;
#if defined(__SSE2__)
    saved.control = _mm_getcsr();
    /* 0x1f80, the power-on value: all masked, nearest, no FTZ, no DAZ; flags do not matter */
    if ((saved.control & 0xffc0) != 0x1f80)
        _mm_setcsr(0x1f80);
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved.control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(saved.status));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#else
    fegetenv(&saved.environment);
    fesetenv(FE_DFL_ENV);
#endif
    return saved;
}

/* Put the mode back, exception flags included. */
static inline void tsa_fpenv_leave(struct tsa_fpenv saved)
{
#if defined(__SSE2__)
    if (_mm_getcsr() != saved.control)
        _mm_setcsr(saved.control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpsr, %0" : : "r"(saved.status));
    __asm__ volatile("msr fpcr, %0" : : "r"(saved.control));
#else
    fesetenv(&saved.environment);
#endif
}

#endif
