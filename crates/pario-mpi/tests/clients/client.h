/*
 * Shared by the client programs: start and end, checks that say what differed, scratch paths.
 *
 * A client ends with `PASS` from rank 0 and status 0, or with one `FAIL` line from the rank that
 * saw a difference and status 1 everywhere. Where a library's own MPI-IO is known to differ from the
 * standard, `CHECK_PARIO` fails under pario only; natively it prints a `NATIVE` line and goes on,
 * so that the list of differences can be read from the output.
 */
#ifndef CLIENT_H
#define CLIENT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <mpi.h>

/* MPICH 4 declares MPI_STATUSES_IGNORE as an address that the compiler takes for an array. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Open MPI 5.0 says version 3 and has no large-count forms. */
#if MPI_VERSION >= 4
#define HAVE_LARGE_COUNT 1
#else
#define HAVE_LARGE_COUNT 0
#endif

#define UNUSED __attribute__((unused))

static int client_rank = -1;
static int client_size = 0;
static int client_is_native = 1;
static const char *client_name = "client";

__attribute__((format(printf, 3, 4)))
static void client_fail(const char *file, int line, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("FAIL %s:%d rank %d of %d: %s\n", file, line, client_rank, client_size, text);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

__attribute__((format(printf, 3, 4)))
UNUSED static void client_differs(const char *file, int line, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!client_is_native) client_fail(file, line, "%s", text);
    printf("NATIVE %s:%d rank %d of %d: %s\n", file, line, client_rank, client_size, text);
    fflush(stdout);
}

#define FAIL(...) client_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition, ...) \
    do { if (!(condition)) client_fail(__FILE__, __LINE__, __VA_ARGS__); } while (0)
/* Holds on pario; at least one library's own MPI-IO is known to break it. */
#define CHECK_PARIO(condition, ...) \
    do { if (!(condition)) client_differs(__FILE__, __LINE__, __VA_ARGS__); } while (0)

UNUSED static int class_of(int code) {
    int class = -1;
    if (code == MPI_SUCCESS) return MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

UNUSED static const char *text_of(int code) {
    static char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    memset(text, 0, sizeof text);
    MPI_Error_string(code, text, &length);
    return text;
}

static void client_ok(const char *file, int line, const char *call, int code) {
    if (code == MPI_SUCCESS) return;
    client_fail(file, line, "%s gave class %d: %s", call, class_of(code), text_of(code));
}
#define OK(call) client_ok(__FILE__, __LINE__, #call, (call))

/* Like OK, for calls that some library's own MPI-IO refuses; true if the call worked. */
UNUSED static int client_ok_pario(const char *file, int line, const char *call, int code) {
    if (code == MPI_SUCCESS) return 1;
    client_differs(file, line, "%s gave class %d: %s", call, class_of(code), text_of(code));
    return 0;
}
#define OK_PARIO(call) client_ok_pario(__FILE__, __LINE__, #call, (call))

/*
 * pario is asked for by the object that serves PMPI_File_open, not by an environment variable: a
 * run that was meant to be under pario and is not must not pass for one.
 */
static int client_served_natively(void) {
    const char *disabled = getenv("PARIO_DISABLE");
    void *open = dlsym(RTLD_DEFAULT, "PMPI_File_open");
    Dl_info info;
    if (disabled && strcmp(disabled, "0") != 0 && disabled[0] != '\0') return 1;
    if (!open || !dladdr(open, &info) || !info.dli_fname) return 1;
    return strstr(info.dli_fname, "pario") == NULL;
}

/* True if the MPI library's own version text contains `part`, e.g. "MPICH" or "Open MPI". */
UNUSED static int library_is(const char *part) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {0};
    int length = 0;
    MPI_Get_library_version(version, &length);
    return strstr(version, part) != NULL;
}

static void client_describe(const char *program) {
    /* The test command may look at the stacks, where the system allows that to ancestors only. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    const char *slash = strrchr(program, '/');
    client_name = slash ? slash + 1 : program;
    client_is_native = client_served_natively();
    MPI_Comm_rank(MPI_COMM_WORLD, &client_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &client_size);
    if (client_rank != 0) return;
    printf("ENGINE %s\n", client_is_native ? "native" : "pario");
    fflush(stdout);
}

UNUSED static int client_end(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == 0) printf("PASS\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

UNUSED static void client_start(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    client_describe((*argv)[0]);
    /* Whether MPI itself works in some environment. */
    if (*argc > 1 && strcmp((*argv)[1], "probe") == 0) exit(client_end());
}

/* `name` in the directory of PARIO_TEST_DIR, else in the current one; a few results stay valid. */
UNUSED static const char *scratch(const char *name) {
    static char paths[8][4096];
    static int next = 0;
    char *path = paths[next++ % 8];
    const char *directory = getenv("PARIO_TEST_DIR");
    snprintf(path, sizeof paths[0], "%s/%s", directory && directory[0] ? directory : ".", name);
    return path;
}

/* Makes writes of every rank visible to every rank (MPI-4.1, 14.6.1: sync, barrier, sync). */
UNUSED static void settle(MPI_File file, MPI_Comm comm) {
    OK(MPI_File_sync(file));
    MPI_Barrier(comm);
    OK(MPI_File_sync(file));
}

/* Rank 0 removes what an earlier run may have left; nobody goes on before that. */
UNUSED static void remove_first(const char *path) {
    if (client_rank == 0) unlink(path);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Pieces of this size in the file belong to the ranks in turn. */
UNUSED static void interleave(MPI_File file, int piece_bytes) {
    MPI_Datatype piece, filetype;
    MPI_Type_contiguous(piece_bytes, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, piece_bytes * (MPI_Aint)client_size, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, (MPI_Offset)piece_bytes * client_rank, MPI_BYTE, filetype, "native",
                         MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&filetype);
}

UNUSED static void client_expect_count(const char *file, int line, const char *what,
                                       MPI_Status *status, MPI_Datatype datatype, int expected) {
    int count = -12345;
    MPI_Get_count(status, datatype, &count);
    if (count != expected)
        client_fail(file, line, "%s: status counts %d, expected %d", what, count, expected);
}
#define EXPECT_COUNT(what, status, datatype, expected) \
    client_expect_count(__FILE__, __LINE__, what, status, datatype, expected)

UNUSED static void client_expect_bytes(const char *file, int line, const char *what, const void *got,
                                       const void *expected, size_t bytes) {
    const unsigned char *left = got, *right = expected;
    for (size_t i = 0; i < bytes; i++)
        if (left[i] != right[i])
            client_fail(file, line, "%s: byte %zu of %zu: expected 0x%02x, got 0x%02x", what, i,
                        bytes, right[i], left[i]);
}
#define EXPECT_BYTES(what, got, expected, bytes) \
    client_expect_bytes(__FILE__, __LINE__, what, got, expected, bytes)

/* A small generator of our own, so that a seed means the same numbers with every C library. */
typedef struct { uint64_t state; } Random;

UNUSED static uint64_t random_next(Random *random) {
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number in low..=high. */
UNUSED static int random_in(Random *random, int low, int high) {
    return low + (int)(random_next(random) % (uint64_t)(high - low + 1));
}

#define FNV_START 0xcbf29ce484222325u
UNUSED static uint64_t fnv(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

#endif
