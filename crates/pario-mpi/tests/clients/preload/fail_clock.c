/*
 * A preload library that lets the clock fail once for pario, on demand of the client:
 *
 *     fail_clock_arm(CLOCK_OF_CALLER);   // the next look at the clock from this thread fails
 *     fail_clock_arm(CLOCK_OF_OTHERS);   // the next one from another thread
 *
 * A clock cannot fail, and Rust's library takes it for a mistake if it does: it panics. That is a
 * panic in the middle of pario, without a hook for one in pario.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { CLOCK_WORKS, CLOCK_OF_CALLER, CLOCK_OF_OTHERS };

static atomic_int armed;
static pthread_t armed_by;

void fail_clock_arm(int whose);

void fail_clock_arm(int whose) {
    armed_by = pthread_self();
    armed = whose; /* last: it switches the rest on */
}

static int is_of_pario(void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libpario_mpi");
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    int whose = armed;
    if (whose != CLOCK_WORKS && is_of_pario(__builtin_return_address(0))
        && (whose == CLOCK_OF_CALLER) == !!pthread_equal(pthread_self(), armed_by)
        && atomic_compare_exchange_strong(&armed, &whose, CLOCK_WORKS)) {
        errno = EINVAL;
        return -1;
    }
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    return next(clock, now);
}
