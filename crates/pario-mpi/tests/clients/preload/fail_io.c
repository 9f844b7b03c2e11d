/*
 * A preload library that lets chosen system calls of this process fail, on demand of the client:
 *
 *     fail_io_arm(FAIL_WRITE, 2, ENOSPC, 1, "name");  // the second write to such a file fails, once
 *     fired = fail_io_disarm();                       // how many calls were made to fail
 *
 * It comes before pario in LD_PRELOAD, since it has to meet pario's calls.
 *
 * Only files whose path contains the given text are hit, so that MPI's own shared memory is not.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    FAIL_NOTHING, FAIL_WRITE, FAIL_READ, FAIL_OPEN, FAIL_SYNC, FAIL_CLOSE, FAIL_UNLOCK
};

static struct {
    atomic_int call, before, left, fired;
    int error;
    char path[256];
} armed;

void fail_io_arm(int call, int nth, int error, int times, const char *path);
int fail_io_disarm(void);

void fail_io_arm(int call, int nth, int error, int times, const char *path) {
    snprintf(armed.path, sizeof armed.path, "%s", path);
    armed.error = error;
    armed.before = nth - 1;
    armed.left = times;
    armed.fired = 0;
    armed.call = call; /* last: it switches the rest on */
}

int fail_io_disarm(void) {
    armed.call = FAIL_NOTHING;
    return atomic_exchange(&armed.fired, 0);
}

static int path_matches(int handle) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return strstr(path, armed.path) != NULL;
}

/* True if the call that asks is the one to fail; errno is set then. */
static int fails(int call) {
    if (atomic_fetch_sub(&armed.before, 1) > 0) return 0;
    if (atomic_fetch_sub(&armed.left, 1) <= 0) return 0;
    (void)call;
    armed.fired++;
    errno = armed.error;
    return 1;
}

static int handle_fails(int call, int handle) {
    return armed.call == call && path_matches(handle) && fails(call);
}

static int path_fails(const char *path) {
    return armed.call == FAIL_OPEN && strstr(path, armed.path) != NULL && fails(FAIL_OPEN);
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

#define POSITIONED(name, buffer, offset, call)                                              \
    ssize_t name(int handle, buffer memory, size_t bytes, offset at) {                      \
        if (handle_fails(call, handle)) return -1;                                          \
        return NEXT(ssize_t(*)(int, buffer, size_t, offset), #name)(handle, memory, bytes, at); \
    }
POSITIONED(pwrite, const void *, off_t, FAIL_WRITE)
POSITIONED(pwrite64, const void *, off64_t, FAIL_WRITE)
POSITIONED(pread, void *, off_t, FAIL_READ)
POSITIONED(pread64, void *, off64_t, FAIL_READ)

#define VECTORED(name, offset, call)                                                        \
    ssize_t name(int handle, const struct iovec *pieces, int count, offset at) {            \
        if (handle_fails(call, handle)) return -1;                                          \
        return NEXT(ssize_t(*)(int, const struct iovec *, int, offset), #name)(handle, pieces, count, at); \
    }
VECTORED(pwritev, off_t, FAIL_WRITE)
VECTORED(pwritev64, off64_t, FAIL_WRITE)
VECTORED(preadv, off_t, FAIL_READ)
VECTORED(preadv64, off64_t, FAIL_READ)

#define PLAIN(name, buffer, call)                                                           \
    ssize_t name(int handle, buffer memory, size_t bytes) {                                 \
        if (handle_fails(call, handle)) return -1;                                          \
        return NEXT(ssize_t(*)(int, buffer, size_t), #name)(handle, memory, bytes);         \
    }
PLAIN(write, const void *, FAIL_WRITE)
PLAIN(read, void *, FAIL_READ)

#define SYNCED(name)                                                                        \
    int name(int handle) {                                                                  \
        if (handle_fails(FAIL_SYNC, handle)) return -1;                                     \
        return NEXT(int (*)(int), #name)(handle);                                           \
    }
SYNCED(fsync)
SYNCED(fdatasync)

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPENED(name)                                                                        \
    int name(const char *path, int flags, ...) {                                            \
        va_list arguments;                                                                  \
        va_start(arguments, flags);                                                         \
        mode_t mode = mode_of(flags, arguments);                                            \
        va_end(arguments);                                                                  \
        if (path_fails(path)) return -1;                                                    \
        return NEXT(int (*)(const char *, int, ...), #name)(path, flags, mode);             \
    }
OPENED(open)
OPENED(open64)

#define OPENED_AT(name)                                                                     \
    int name(int directory, const char *path, int flags, ...) {                             \
        va_list arguments;                                                                  \
        va_start(arguments, flags);                                                         \
        mode_t mode = mode_of(flags, arguments);                                            \
        va_end(arguments);                                                                  \
        if (path_fails(path)) return -1;                                                    \
        return NEXT(int (*)(int, const char *, int, ...), #name)(directory, path, flags, mode); \
    }
OPENED_AT(openat)
OPENED_AT(openat64)

/* The descriptor is gone whatever close says. */
int close(int handle) {
    int failed = handle_fails(FAIL_CLOSE, handle), error = errno;
    int code = NEXT(int (*)(int), "close")(handle);
    if (!failed) return code;
    errno = error;
    return -1;
}

static int unlocks(int command, void *argument) {
    return command == F_OFD_SETLK && ((struct flock *)argument)->l_type == F_UNLCK;
}

#define CONTROLLED(name)                                                                    \
    int name(int handle, int command, ...) {                                                \
        va_list arguments;                                                                  \
        va_start(arguments, command);                                                       \
        void *argument = va_arg(arguments, void *);                                         \
        va_end(arguments);                                                                  \
        if (armed.call == FAIL_UNLOCK && unlocks(command, argument)                         \
            && handle_fails(FAIL_UNLOCK, handle)) return -1;                                \
        return NEXT(int (*)(int, int, ...), #name)(handle, command, argument);              \
    }
CONTROLLED(fcntl)
CONTROLLED(fcntl64)
