/*
 * A preload library that lets chosen MPI calls of pario fail in this process, on demand of the
 * client:
 *
 *     fail_mpi_arm(FAIL_TEST, 2, 1);   // the second MPI_Test that would complete fails, once
 *     fired = fail_mpi_disarm();       // how many calls were made to fail
 *
 * pario calls MPI by its PMPI names; the client's own calls are not hit. Handles are passed on as
 * words, which every MPI library takes: they are numbers in MPICH and addresses elsewhere.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>

enum { FAIL_NOTHING, FAIL_ISEND, FAIL_IMPROBE, FAIL_IMRECV, FAIL_TEST, FAIL_GET_COUNT };

/* MPI_ERR_OTHER in most libraries; only that it is not success matters. */
enum { FAILED = 15 };

static struct { atomic_int call, before, left, fired; } armed;

void fail_mpi_arm(int call, int nth, int times);
int fail_mpi_disarm(void);

void fail_mpi_arm(int call, int nth, int times) {
    armed.before = nth - 1;
    armed.left = times;
    armed.fired = 0;
    armed.call = call; /* last: it switches the rest on */
}

int fail_mpi_disarm(void) {
    armed.call = FAIL_NOTHING;
    return atomic_exchange(&armed.fired, 0);
}

static int fails(int call) {
    if (armed.call != call) return 0;
    if (atomic_fetch_sub(&armed.before, 1) > 0) return 0;
    if (atomic_fetch_sub(&armed.left, 1) <= 0) return 0;
    armed.fired++;
    return 1;
}

typedef uintptr_t Word;
#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

int PMPI_Isend(const void *bytes, int count, Word type, int to, int tag, Word comm, void *request);
int PMPI_Isend(const void *bytes, int count, Word type, int to, int tag, Word comm, void *request) {
    if (fails(FAIL_ISEND)) return FAILED;
    return NEXT(int (*)(const void *, int, Word, int, int, Word, void *), "PMPI_Isend")(
        bytes, count, type, to, tag, comm, request);
}

int PMPI_Improbe(int from, int tag, Word comm, int *flag, void *message, void *status);
int PMPI_Improbe(int from, int tag, Word comm, int *flag, void *message, void *status) {
    if (fails(FAIL_IMPROBE)) return FAILED;
    return NEXT(int (*)(int, int, Word, int *, void *, void *), "PMPI_Improbe")(
        from, tag, comm, flag, message, status);
}

int PMPI_Imrecv(void *bytes, int count, Word type, void *message, void *request);
int PMPI_Imrecv(void *bytes, int count, Word type, void *message, void *request) {
    if (fails(FAIL_IMRECV)) return FAILED;
    return NEXT(int (*)(void *, int, Word, void *, void *), "PMPI_Imrecv")(
        bytes, count, type, message, request);
}

/* As MPICH does it: the request has ended, and the call returns its error. */
int PMPI_Test(void *request, int *flag, void *status);
int PMPI_Test(void *request, int *flag, void *status) {
    int code = NEXT(int (*)(void *, int *, void *), "PMPI_Test")(request, flag, status);
    return code == 0 && *flag && fails(FAIL_TEST) ? FAILED : code;
}

int PMPI_Get_count(const void *status, Word type, int *count);
int PMPI_Get_count(const void *status, Word type, int *count) {
    if (fails(FAIL_GET_COUNT)) return FAILED;
    return NEXT(int (*)(const void *, Word, int *), "PMPI_Get_count")(status, type, count);
}
