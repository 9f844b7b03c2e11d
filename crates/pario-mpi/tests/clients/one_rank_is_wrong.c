/* ranks: 2 3 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 300 */
/*
 * Every collective entry point with a bad argument on one rank (docs/audit.md, "Collective entry
 * points"): all ranks return the same class, nobody waits, no pointer moves, and a good collective
 * afterwards shows that the ranks are in step.
 *
 * It runs under pario only: MPICH's and Open MPI's own MPI-IO hang.
 */
#include "client.h"

enum { BYTES = 64, OLD_SIZE = 4096 };

static char values[BYTES], back[BYTES];

/* ---- data access ---- */

typedef struct {
    MPI_Offset offset;
    void *buffer;
    int count;
    MPI_Datatype datatype;
} Arguments;

/* What is wrong on one rank. */
typedef enum { COUNT, DATATYPE, BUFFER, OFFSET, FAULTS } Fault;
static const char *const fault_names[FAULTS] = {"count", "datatype", "buffer", "offset"};

static int class_of_fault(Fault fault) {
    switch (fault) {
    case COUNT: return MPI_ERR_COUNT;
    case DATATYPE: return MPI_ERR_TYPE;
    default: return MPI_ERR_ARG;
    }
}

static Arguments arguments(int is_wrong, Fault fault) {
    Arguments all = {client_rank * BYTES, values, BYTES, MPI_BYTE};
    if (!is_wrong) return all;
    switch (fault) {
    case COUNT: all.count = -1; break;
    case DATATYPE: all.datatype = MPI_DATATYPE_NULL; break;
    case BUFFER: all.buffer = NULL; break;
    default: all.offset = -1;
    }
    return all;
}

/* The outcome of a non-blocking call: that of its start or of its end. */
static int waited(int code, MPI_Request *request) {
    if (code == MPI_SUCCESS) return MPI_Wait(request, MPI_STATUS_IGNORE);
    CHECK(*request == MPI_REQUEST_NULL, "a failed start left a request");
    return code;
}

/* One function for each entry point: NAME##_call(file, arguments). */
#define AT(name) \
    static int name##_call(MPI_File file, Arguments a) { \
        return MPI_File_##name(file, a.offset, a.buffer, a.count, a.datatype, MPI_STATUS_IGNORE); \
    }
#define POINTER(name) \
    static int name##_call(MPI_File file, Arguments a) { \
        return MPI_File_##name(file, a.buffer, a.count, a.datatype, MPI_STATUS_IGNORE); \
    }
#define AT_REQUEST(name) \
    static int name##_call(MPI_File file, Arguments a) { \
        MPI_Request request = MPI_REQUEST_NULL; \
        int code = MPI_File_##name(file, a.offset, a.buffer, a.count, a.datatype, &request); \
        return waited(code, &request); \
    }
#define POINTER_REQUEST(name) \
    static int name##_call(MPI_File file, Arguments a) { \
        MPI_Request request = MPI_REQUEST_NULL; \
        int code = MPI_File_##name(file, a.buffer, a.count, a.datatype, &request); \
        return waited(code, &request); \
    }
/* Begins do all of the work; after one that failed there is nothing to end. */
#define AT_SPLIT(name, begin) \
    static int begin##_call(MPI_File file, Arguments a) { \
        int code = MPI_File_##begin(file, a.offset, a.buffer, a.count, a.datatype); \
        return code ? code : MPI_File_##name##_end(file, a.buffer, MPI_STATUS_IGNORE); \
    }
#define POINTER_SPLIT(name, begin) \
    static int begin##_call(MPI_File file, Arguments a) { \
        int code = MPI_File_##begin(file, a.buffer, a.count, a.datatype); \
        return code ? code : MPI_File_##name##_end(file, a.buffer, MPI_STATUS_IGNORE); \
    }

AT(read_at_all) AT(write_at_all) POINTER(read_all) POINTER(write_all)
POINTER(read_ordered) POINTER(write_ordered)
AT_REQUEST(iread_at_all) AT_REQUEST(iwrite_at_all)
POINTER_REQUEST(iread_all) POINTER_REQUEST(iwrite_all)
AT_SPLIT(read_at_all, read_at_all_begin) AT_SPLIT(write_at_all, write_at_all_begin)
POINTER_SPLIT(read_all, read_all_begin) POINTER_SPLIT(write_all, write_all_begin)
POINTER_SPLIT(read_ordered, read_ordered_begin) POINTER_SPLIT(write_ordered, write_ordered_begin)
#if HAVE_LARGE_COUNT
AT(read_at_all_c) AT(write_at_all_c) POINTER(read_all_c) POINTER(write_all_c)
POINTER(read_ordered_c) POINTER(write_ordered_c)
AT_REQUEST(iread_at_all_c) AT_REQUEST(iwrite_at_all_c)
POINTER_REQUEST(iread_all_c) POINTER_REQUEST(iwrite_all_c)
AT_SPLIT(read_at_all, read_at_all_begin_c) AT_SPLIT(write_at_all, write_at_all_begin_c)
POINTER_SPLIT(read_all, read_all_begin_c) POINTER_SPLIT(write_all, write_all_begin_c)
POINTER_SPLIT(read_ordered, read_ordered_begin_c)
POINTER_SPLIT(write_ordered, write_ordered_begin_c)
#endif

typedef struct {
    const char *name;
    int (*call)(MPI_File file, Arguments arguments);
    int has_offset, is_request;
} Access;

static const Access accesses[] = {
    {"read_at_all", read_at_all_call, 1, 0}, {"write_at_all", write_at_all_call, 1, 0},
    {"read_all", read_all_call, 0, 0}, {"write_all", write_all_call, 0, 0},
    {"read_ordered", read_ordered_call, 0, 0}, {"write_ordered", write_ordered_call, 0, 0},
    {"iread_at_all", iread_at_all_call, 1, 1}, {"iwrite_at_all", iwrite_at_all_call, 1, 1},
    {"iread_all", iread_all_call, 0, 1}, {"iwrite_all", iwrite_all_call, 0, 1},
    {"read_at_all_begin", read_at_all_begin_call, 1, 0},
    {"write_at_all_begin", write_at_all_begin_call, 1, 0},
    {"read_all_begin", read_all_begin_call, 0, 0},
    {"write_all_begin", write_all_begin_call, 0, 0},
    {"read_ordered_begin", read_ordered_begin_call, 0, 0},
    {"write_ordered_begin", write_ordered_begin_call, 0, 0},
#if HAVE_LARGE_COUNT
    {"read_at_all_c", read_at_all_c_call, 1, 0}, {"write_at_all_c", write_at_all_c_call, 1, 0},
    {"read_all_c", read_all_c_call, 0, 0}, {"write_all_c", write_all_c_call, 0, 0},
    {"read_ordered_c", read_ordered_c_call, 0, 0}, {"write_ordered_c", write_ordered_c_call, 0, 0},
    {"iread_at_all_c", iread_at_all_c_call, 1, 1}, {"iwrite_at_all_c", iwrite_at_all_c_call, 1, 1},
    {"iread_all_c", iread_all_c_call, 0, 1}, {"iwrite_all_c", iwrite_all_c_call, 0, 1},
    {"read_at_all_begin_c", read_at_all_begin_c_call, 1, 0},
    {"write_at_all_begin_c", write_at_all_begin_c_call, 1, 0},
    {"read_all_begin_c", read_all_begin_c_call, 0, 0},
    {"write_all_begin_c", write_all_begin_c_call, 0, 0},
    {"read_ordered_begin_c", read_ordered_begin_c_call, 0, 0},
    {"write_ordered_begin_c", write_ordered_begin_c_call, 0, 0},
#endif
};
enum { ACCESSES = sizeof accesses / sizeof *accesses };

/* Where a library has no hook for progress, each rank does its part of a non-blocking collective at
 * once, and its pointer moves whatever others find (docs/mpi.md, "Non-blocking calls"). */
static int requests_are_served_at_once(void) {
#ifdef MPI_ABI_VERSION
    return 1;
#else
    return !library_is("Open MPI") && dlsym(RTLD_DEFAULT, "PMPIX_Async_start") == NULL;
#endif
}

/* ---- everything else ---- */

typedef int (*Call)(MPI_File file, int is_wrong);

static int set_size(MPI_File file, int is_wrong) {
    return MPI_File_set_size(file, is_wrong ? -1 : OLD_SIZE);
}

static int preallocate(MPI_File file, int is_wrong) {
    return MPI_File_preallocate(file, is_wrong ? -1 : 2 * OLD_SIZE);
}

static int seek_shared_offset(MPI_File file, int is_wrong) {
    return MPI_File_seek_shared(file, is_wrong ? -1 : 0, MPI_SEEK_SET);
}

static int seek_shared_whence(MPI_File file, int is_wrong) {
    return MPI_File_seek_shared(file, 0, is_wrong ? -77 : MPI_SEEK_SET);
}

static int set_atomicity(MPI_File file, int is_wrong) {
    return MPI_File_set_atomicity(file, is_wrong);
}

static int view_displacement(MPI_File file, int is_wrong) {
    return MPI_File_set_view(file, is_wrong ? -4 : 8, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

static int view_etype(MPI_File file, int is_wrong) {
    return MPI_File_set_view(file, 8, is_wrong ? MPI_DATATYPE_NULL : MPI_BYTE, MPI_BYTE, "native",
                             MPI_INFO_NULL);
}

static int view_filetype(MPI_File file, int is_wrong) {
    return MPI_File_set_view(file, 8, MPI_BYTE, is_wrong ? MPI_DATATYPE_NULL : MPI_BYTE, "native",
                             MPI_INFO_NULL);
}

static int view_datarep(MPI_File file, int is_wrong) {
    return MPI_File_set_view(file, 8, MPI_BYTE, MPI_BYTE, is_wrong ? "no such" : "native",
                             MPI_INFO_NULL);
}

static int view_null_datarep(MPI_File file, int is_wrong) {
    char *volatile none = NULL;
    char native[] = "native";
    return MPI_File_set_view(file, 8, MPI_BYTE, MPI_BYTE, is_wrong ? none : native, MPI_INFO_NULL);
}

/* Representations that a program registers must be the same, too. */
static int view_other_datarep(MPI_File file, int is_wrong) {
    return MPI_File_set_view(file, 8, MPI_BYTE, MPI_BYTE, is_wrong ? "copied" : "native",
                             MPI_INFO_NULL);
}

static int open_with(const char *path, int amode, MPI_File *place) {
    int code = MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, place);
    CHECK(code != MPI_SUCCESS, "an open that is wrong on one rank succeeded");
    CHECK(place == NULL || *place == MPI_FILE_NULL, "a failed open left a handle");
    return code;
}

static int open_name(MPI_File file, int is_wrong) {
    char *volatile none = NULL;
    MPI_File other = file;
    return open_with(is_wrong ? none : scratch("one_rank_is_wrong.new"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE, &other);
}

static int open_amode(MPI_File file, int is_wrong) {
    MPI_File other = file;
    return open_with(scratch("one_rank_is_wrong.new"),
                     MPI_MODE_CREATE | (is_wrong ? 0 : MPI_MODE_RDWR), &other);
}

static int open_place(MPI_File file, int is_wrong) {
    MPI_File other = file;
    return open_with(scratch("one_rank_is_wrong.new"), MPI_MODE_RDWR | MPI_MODE_CREATE,
                     is_wrong ? NULL : &other);
}

/* One rank has not ended its split collective when the next begins. */
static int second_begin(MPI_File file, int is_wrong) {
    OK(MPI_File_read_at_all_begin(file, 0, back, BYTES, MPI_BYTE));
    if (!is_wrong) OK(MPI_File_read_at_all_end(file, back, MPI_STATUS_IGNORE));
    int code = MPI_File_read_at_all_begin(file, 0, back, BYTES, MPI_BYTE);
    if (is_wrong) OK(MPI_File_read_at_all_end(file, back, MPI_STATUS_IGNORE));
    return code;
}

typedef struct { const char *name; Call call; int class; } Other;

static const Other others[] = {
    {"set_size", set_size, MPI_ERR_ARG},
    {"preallocate", preallocate, MPI_ERR_ARG},
    {"seek_shared, offset", seek_shared_offset, MPI_ERR_ARG},
    {"seek_shared, whence", seek_shared_whence, MPI_ERR_ARG},
    {"set_atomicity", set_atomicity, MPI_ERR_NOT_SAME},
    {"set_view, displacement", view_displacement, MPI_ERR_ARG},
    {"set_view, etype", view_etype, MPI_ERR_TYPE},
    {"set_view, filetype", view_filetype, MPI_ERR_TYPE},
    {"set_view, unknown datarep", view_datarep, MPI_ERR_UNSUPPORTED_DATAREP},
    {"set_view, no datarep", view_null_datarep, MPI_ERR_ARG},
    {"set_view, another datarep", view_other_datarep, MPI_ERR_NOT_SAME},
    {"open, name", open_name, MPI_ERR_ARG},
    {"open, amode", open_amode, MPI_ERR_AMODE},
    {"open, place for the handle", open_place, MPI_ERR_ARG},
    {"a second split begin", second_begin, MPI_ERR_UNSUPPORTED_OPERATION},
};
enum { OTHERS = sizeof others / sizeof *others };

/* ---- the test ---- */

typedef struct { MPI_Offset position, shared, size; } State;

static State state_of(MPI_File file) {
    State state;
    OK(MPI_File_get_position(file, &state.position));
    OK(MPI_File_get_position_shared(file, &state.shared));
    OK(MPI_File_get_size(file, &state.size));
    /* Nobody moves the shared pointer on before all have seen it. */
    MPI_Barrier(MPI_COMM_WORLD);
    return state;
}

static void expect_state(const char *what, MPI_File file, State before) {
    MPI_Barrier(MPI_COMM_WORLD);
    State after = state_of(file);
    CHECK(after.position == before.position, "%s: the pointer moved to %lld", what,
          (long long)after.position);
    CHECK(after.shared == before.shared, "%s: the shared pointer moved to %lld", what,
          (long long)after.shared);
    CHECK(after.size == before.size, "%s: the size became %lld", what, (long long)after.size);
}

/* Ranks that are out of step get an error here, other bytes, or wait for ever. */
static void expect_in_step(const char *what, MPI_File file) {
    static char turn;
    MPI_Status status;
    int next = (client_rank + 1) % client_size;
    char expected[BYTES];
    memset(values, ++turn + client_rank, BYTES);
    memset(expected, turn + next, BYTES);
    OK(MPI_File_write_at_all(file, client_rank * BYTES, values, BYTES, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BYTES);
    OK(MPI_File_read_at_all(file, next * BYTES, back, BYTES, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BYTES);
    EXPECT_BYTES(what, back, expected, BYTES);
    /* Nobody writes the next values before all have read these. */
    OK(MPI_File_sync(file));
}

static void expect_same_class(const char *what, int code, int class) {
    CHECK(class_of(code) == class, "%s: class %d (%s), expected %d", what, class_of(code),
          code == MPI_SUCCESS ? "success" : text_of(code), class);
}

static void data_access(MPI_File file, int wrong) {
    char what[128];
    for (int i = 0; i < ACCESSES; i++)
        for (Fault fault = 0; fault < FAULTS; fault++) {
            if (fault == OFFSET && !accesses[i].has_offset) continue;
            snprintf(what, sizeof what, "%s, bad %s on rank %d", accesses[i].name,
                     fault_names[fault], wrong);
            State before = state_of(file);
            Arguments own = arguments(client_rank == wrong, fault);
            int code = accesses[i].call(file, own);
            expect_same_class(what, code, class_of_fault(fault));
            if (accesses[i].is_request && requests_are_served_at_once())
                OK(MPI_File_seek(file, before.position, MPI_SEEK_SET));
            expect_state(what, file, before);
            expect_in_step(what, file);
        }
}

static void other_calls(MPI_File file, int wrong) {
    char what[128];
    for (int i = 0; i < OTHERS; i++) {
        snprintf(what, sizeof what, "%s wrong on rank %d", others[i].name, wrong);
        State before = state_of(file);
        expect_same_class(what, others[i].call(file, client_rank == wrong), others[i].class);
        expect_state(what, file, before);
        expect_in_step(what, file);
    }
}

/* The end of a split collective takes no step together: its error stays on its rank. */
static void lonely_end(MPI_File file, int wrong) {
    if (client_rank == wrong)
        expect_same_class("an end without its begin",
                          MPI_File_read_all_end(file, back, MPI_STATUS_IGNORE),
                          MPI_ERR_UNSUPPORTED_OPERATION);
    expect_in_step("after an end without its begin", file);
}

/* Not wrong at all: rank 0's hints count, others may give some or none. */
static void info_of_one_rank(MPI_File file, int giver) {
    MPI_Info info = MPI_INFO_NULL, got;
    char value[64] = "", size[32];
    int found = 0;
    snprintf(size, sizeof size, "%d", 8192 * (giver + 1));
    if (client_rank == giver) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "cb_buffer_size", size);
    }
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info));
    expect_in_step("set_view with info on one rank", file);
    OK(MPI_File_set_info(file, info));
    expect_in_step("set_info with info on one rank", file);
    OK(MPI_File_get_info(file, &got));
    MPI_Info_get(got, "cb_buffer_size", 63, value, &found);
    CHECK(found && (strcmp(value, size) == 0) == (giver == 0), "info of rank %d: cb_buffer_size %s",
          giver, value);
    MPI_Info_free(&got);
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
}

static int copied_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state) {
    MPI_Aint lower;
    (void)state;
    return MPI_Type_get_extent(datatype, &lower, extent);
}

static int copied(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position,
                  void *state) {
    (void)user, (void)datatype, (void)count, (void)file, (void)position, (void)state;
    return MPI_ERR_OTHER; /* never asked */
}

/* There is nobody to announce it to: an error of the rank alone, whatever communicators do with
 * theirs. */
static void open_for_nobody(void) {
    MPI_File file;
    expect_same_class("open for MPI_COMM_NULL",
                      MPI_File_open(MPI_COMM_NULL, scratch("one_rank_is_wrong.new"),
                                    MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file),
                      MPI_ERR_ARG);
    CHECK(file == MPI_FILE_NULL, "an open for nobody left a handle");
}

int main(int argc, char **argv) {
    MPI_File file;
    client_start(&argc, &argv);
    open_for_nobody();
    /* Errors of requests are raised on a communicator by some libraries. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Register_datarep("copied", copied, copied, copied_extent, NULL));
    remove_first(scratch("one_rank_is_wrong.data"));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("one_rank_is_wrong.data"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_size(file, OLD_SIZE));
    OK(MPI_File_seek(file, 5, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(file, 9, MPI_SEEK_SET));
    expect_in_step("at the start", file);
    for (int wrong = 0; wrong < client_size; wrong += client_size - 1) {
        other_calls(file, wrong);
        data_access(file, wrong);
        lonely_end(file, wrong);
        info_of_one_rank(file, client_size - 1 - wrong);
        OK(MPI_File_seek(file, 5, MPI_SEEK_SET));
        OK(MPI_File_seek_shared(file, 9, MPI_SEEK_SET));
    }
    OK(MPI_File_close(&file));
    CHECK(access(scratch("one_rank_is_wrong.new"), F_OK) != 0, "a failed open left its file");
    return client_end();
}
