/* ranks: 1 2 5 */
/* mpis: all */
/* pario: yes */
/* calls: at least 60 */
/*
 * Every error class that a program can reach without a broken disk: the class, a text for it, the
 * handler that is called. QUOTA and faults on one rank only are in one_rank_fails.c.
 *
 * No library survives this natively: `natively_unsafe` guards the calls that crash or hang there,
 * and other differences are printed (NATIVE), not failed. PARIO_TEST_FULL_DIR may name a directory on a file system with less than 1 MiB of space.
 */
#include "client.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { NONE = -1 };

/* `code` must have one of the classes; where the standard leaves a choice there are several. */
static void expect_class(const char *what, int code, int first, int second, int third) {
    int class = class_of(code);
    CHECK_PARIO(class != MPI_SUCCESS, "%s: succeeded, expected class %d", what, first);
    if (class == MPI_SUCCESS) return;
    CHECK_PARIO(class == first || (second != NONE && class == second) ||
                    (third != NONE && class == third),
                "%s: class %d (%s), expected %d", what, class, text_of(code), first);
    CHECK(strlen(text_of(code)) > 0, "%s: class %d has no text", what, class);
}

static void expect_only(const char *what, int code, int class) {
    expect_class(what, code, class, NONE, NONE);
}

/* True where a library's own MPI-IO hangs, aborts or reads freed memory instead of an error. */
static int natively_unsafe(void) { return client_is_native; }

static int try_open(const char *path, int amode, MPI_File *file) {
    *file = MPI_FILE_NULL;
    return MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, file);
}

/* An open that must fail on all ranks and leave no handle behind. */
static void refuse_open(const char *what, const char *path, int amode, int first, int second) {
    MPI_File file;
    int code = try_open(path, amode, &file);
    expect_class(what, code, first, second, NONE);
    CHECK_PARIO(code == MPI_SUCCESS || file == MPI_FILE_NULL, "%s: a failed open left a handle", what);
    if (code == MPI_SUCCESS) MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_File open_or_fail(const char *path, int amode) {
    MPI_File file;
    OK(try_open(path, amode, &file));
    return file;
}

static void make_file(const char *path) {
    remove_first(path);
    MPI_File file = open_or_fail(path, MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_size(file, 4096));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void names(const char *path) {
    char long_path[6000];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    long_path[0] = '/';
    refuse_open("open of a missing file", scratch("missing"), MPI_MODE_RDWR, MPI_ERR_NO_SUCH_FILE, NONE);
    refuse_open("open in a missing directory", scratch("missing/file"),
                MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_ERR_NO_SUCH_FILE, NONE);
    refuse_open("open below a file", scratch("errors.data/file"), MPI_MODE_RDWR | MPI_MODE_CREATE,
                MPI_ERR_BAD_FILE, MPI_ERR_NO_SUCH_FILE);
    refuse_open("open of a directory", scratch("."), MPI_MODE_RDWR, MPI_ERR_BAD_FILE, MPI_ERR_IO);
    refuse_open("open of a name too long", long_path, MPI_MODE_RDWR, MPI_ERR_BAD_FILE, NONE);
    refuse_open("exclusive open of an existing file", path,
                MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_ERR_FILE_EXISTS, NONE);
    if (client_rank == 0)
        expect_only("delete of a missing file", MPI_File_delete(scratch("missing"), MPI_INFO_NULL),
                    MPI_ERR_NO_SUCH_FILE);
}

static void access_modes(const char *path) {
    refuse_open("read-only and write-only", path, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_ERR_AMODE, NONE);
    refuse_open("read-only and read-write", path, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_ERR_AMODE, NONE);
    refuse_open("no access at all", path, MPI_MODE_CREATE, MPI_ERR_AMODE, NONE);
    refuse_open("create and read-only", path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_ERR_AMODE, NONE);
    refuse_open("exclusive and read-only", path, MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_ERR_AMODE, NONE);
    refuse_open("sequential and read-write", path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_ERR_AMODE, NONE);
    /* Natively Open MPI opens the file here and then uses what the ranks disagree about. */
    if (client_size > 1 && (!client_is_native || library_is("MPICH")))
        refuse_open("another mode on each rank", path,
                    client_rank == 0 ? MPI_MODE_RDONLY : MPI_MODE_RDWR, MPI_ERR_NOT_SAME, MPI_ERR_AMODE);
}

/* Root may open anything, so it steps down for a moment. */
static void permissions(const char *path) {
    if (geteuid() != 0) return;
    if (client_rank == 0 && chmod(path, 0600) != 0) FAIL("chmod");
    MPI_Barrier(MPI_COMM_WORLD);
    if (seteuid(65534) != 0) FAIL("seteuid");
    MPI_File file;
    int code = try_open(path, MPI_MODE_RDWR, &file);
    if (seteuid(0) != 0) FAIL("seteuid back");
    expect_only("open without permission", code, MPI_ERR_ACCESS);
    if (code == MPI_SUCCESS) MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void read_only(const char *path) {
    int word = 1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File file = open_or_fail(path, MPI_MODE_RDONLY);
    expect_class("write_at on read-only", MPI_File_write_at(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                 MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, NONE);
    expect_class("write_at_all on read-only",
                 MPI_File_write_at_all(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                 MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, NONE);
    expect_class("iwrite_at on read-only", MPI_File_iwrite_at(file, 0, &word, 1, MPI_INT, &request),
                 MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, NONE);
    expect_class("write_shared on read-only",
                 MPI_File_write_shared(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                 MPI_ERR_READ_ONLY, MPI_ERR_ACCESS, NONE);
    expect_class("set_size on read-only", MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY,
                 MPI_ERR_ACCESS, NONE);
    expect_class("preallocate on read-only", MPI_File_preallocate(file, 9000), MPI_ERR_READ_ONLY,
                 MPI_ERR_ACCESS, NONE);
    OK(MPI_File_read_at(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
}

static void write_only(const char *path) {
    int word = 1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File file = open_or_fail(path, MPI_MODE_WRONLY);
    expect_only("read_at on write-only", MPI_File_read_at(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                MPI_ERR_ACCESS);
    expect_only("read_all on write-only", MPI_File_read_all(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                MPI_ERR_ACCESS);
    expect_only("iread on write-only", MPI_File_iread(file, &word, 1, MPI_INT, &request),
                MPI_ERR_ACCESS);
    OK(MPI_File_write_at(file, client_rank * 4, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
}

static void arguments(const char *path) {
    int word = 1;
    MPI_Aint extent;
    MPI_File file = open_or_fail(path, MPI_MODE_RDWR);
    expect_class("negative count", MPI_File_write_at(file, 0, &word, -1, MPI_INT, MPI_STATUS_IGNORE),
                 MPI_ERR_COUNT, MPI_ERR_ARG, NONE);
    expect_class("negative count of a collective",
                 MPI_File_read_at_all(file, 0, &word, -1, MPI_INT, MPI_STATUS_IGNORE),
                 MPI_ERR_COUNT, MPI_ERR_ARG, NONE);
    expect_only("negative offset", MPI_File_read_at(file, -1, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                MPI_ERR_ARG);
    expect_only("seek before the start", MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    expect_only("seek before the start from the end", MPI_File_seek(file, -5000, MPI_SEEK_END), MPI_ERR_ARG);
    expect_only("seek with an unknown base", MPI_File_seek(file, 0, -77), MPI_ERR_ARG);
    /* MPICH and Open MPI find the fault on rank 0 only, so the ranks part ways. */
    if (!natively_unsafe())
        expect_only("shared seek before the start", MPI_File_seek_shared(file, -1, MPI_SEEK_SET),
                    MPI_ERR_ARG);
    expect_only("negative size", MPI_File_set_size(file, -1), MPI_ERR_ARG);
    expect_only("negative preallocation", MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    expect_only("negative displacement",
                MPI_File_set_view(file, -4, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    expect_class("extent of no type", MPI_File_get_type_extent(file, MPI_DATATYPE_NULL, &extent),
                 MPI_ERR_TYPE, MPI_ERR_ARG, NONE);
    OK(MPI_File_close(&file));
}

static void arguments_that_differ(const char *path) {
    if (client_size == 1 || natively_unsafe()) return;
    MPI_File file = open_or_fail(path, MPI_MODE_RDWR);
    expect_class("another size on each rank", MPI_File_set_size(file, 4096 + client_rank),
                 MPI_ERR_NOT_SAME, MPI_ERR_ARG, NONE);
    expect_class("another atomicity on each rank", MPI_File_set_atomicity(file, client_rank == 0),
                 MPI_ERR_NOT_SAME, MPI_ERR_ARG, NONE);
    expect_class("another seek on each rank", MPI_File_seek_shared(file, client_rank, MPI_SEEK_SET),
                 MPI_ERR_NOT_SAME, MPI_ERR_ARG, NONE);
    /* Not said to be erroneous by a class of its own, but no rank may wait for ever. */
    expect_class("etypes of different extents",
                 MPI_File_set_view(file, 0, client_rank == 0 ? MPI_INT : MPI_DOUBLE,
                                   client_rank == 0 ? MPI_INT : MPI_DOUBLE, "native", MPI_INFO_NULL),
                 MPI_ERR_NOT_SAME, MPI_ERR_ARG, MPI_ERR_TYPE);
    OK(MPI_File_close(&file));
}

static int set_filetype(MPI_File file, MPI_Datatype etype, MPI_Datatype filetype) {
    return MPI_File_set_view(file, 0, etype, filetype, "native", MPI_INFO_NULL);
}

static void filetypes(MPI_File file) {
    MPI_Datatype three_ints, overlapping, negative;
    int lengths[2] = {2, 2}, overlaps[2] = {0, 1}, backwards[2] = {-4, 0};
    MPI_Type_contiguous(3, MPI_INT, &three_ints);
    MPI_Type_indexed(2, lengths, overlaps, MPI_INT, &overlapping);
    MPI_Type_indexed(2, lengths, backwards, MPI_INT, &negative);
    MPI_Type_commit(&three_ints);
    MPI_Type_commit(&overlapping);
    MPI_Type_commit(&negative);
    expect_class("filetype that is no multiple of the etype",
                 set_filetype(file, MPI_DOUBLE, three_ints), MPI_ERR_TYPE, MPI_ERR_ARG, NONE);
    expect_class("filetype with a negative displacement", set_filetype(file, MPI_INT, negative),
                 MPI_ERR_TYPE, MPI_ERR_ARG, NONE);
    expect_class("filetype that overlaps itself, for writing", set_filetype(file, MPI_INT, overlapping),
                 MPI_ERR_TYPE, MPI_ERR_ARG, NONE);
    OK(set_filetype(file, MPI_BYTE, MPI_BYTE));
    MPI_Type_free(&three_ints);
    MPI_Type_free(&overlapping);
    MPI_Type_free(&negative);
}

static void datatypes(const char *path) {
    int word = 1;
    MPI_Datatype uncommitted;
    MPI_File file = open_or_fail(path, MPI_MODE_RDWR);
    MPI_Type_contiguous(1, MPI_INT, &uncommitted);
    expect_only("no datatype", MPI_File_write_at(file, 0, &word, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE),
                MPI_ERR_TYPE);
    expect_only("no datatype in a collective",
                MPI_File_write_at_all(file, 0, &word, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    /* Nothing in the standard lets a tool ask whether a type is committed, so success is allowed. */
    int code = MPI_File_write_at(file, 0, &word, 1, uncommitted, MPI_STATUS_IGNORE);
    CHECK_PARIO(code == MPI_SUCCESS || class_of(code) == MPI_ERR_TYPE,
                "uncommitted datatype: class %d", class_of(code));
    MPI_Type_free(&uncommitted);
    expect_class("view without an etype", set_filetype(file, MPI_DATATYPE_NULL, MPI_BYTE),
                 MPI_ERR_TYPE, MPI_ERR_ARG, NONE);
    expect_class("view without a filetype", set_filetype(file, MPI_BYTE, MPI_DATATYPE_NULL),
                 MPI_ERR_TYPE, MPI_ERR_ARG, NONE);
    filetypes(file);
    expect_only("unknown datarep",
                MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "no such", MPI_INFO_NULL),
                MPI_ERR_UNSUPPORTED_DATAREP);
    OK(MPI_File_close(&file));
}

static void sequential(const char *path) {
    int word = 1;
    MPI_Offset position;
    MPI_File file = open_or_fail(path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    expect_only("write_at on sequential", MPI_File_write_at(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                MPI_ERR_UNSUPPORTED_OPERATION);
    expect_only("write_all on sequential", MPI_File_write_all(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                MPI_ERR_UNSUPPORTED_OPERATION);
    expect_only("seek on sequential", MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    expect_only("get_position on sequential", MPI_File_get_position(file, &position),
                MPI_ERR_UNSUPPORTED_OPERATION);
    expect_only("seek_shared on sequential", MPI_File_seek_shared(file, 0, MPI_SEEK_SET),
                MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_write_shared(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
}

static void handles(const char *path) {
    int word = 1;
    MPI_Offset size;
    MPI_File file = MPI_FILE_NULL, stale;
#ifdef MPI_ABI_VERSION
    if (natively_unsafe()) return; /* libmpi_abi follows its null handle, 0x118 */
#endif
    expect_only("read from no file", MPI_File_read_at(MPI_FILE_NULL, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE),
                MPI_ERR_FILE);
    expect_only("size of no file", MPI_File_get_size(MPI_FILE_NULL, &size), MPI_ERR_FILE);
    expect_only("close of no file", MPI_File_close(&file), MPI_ERR_FILE);
    if (natively_unsafe()) return; /* libraries read the freed handle */
    stale = file = open_or_fail(path, MPI_MODE_RDONLY);
    OK(MPI_File_close(&file));
    expect_only("size of a closed file", MPI_File_get_size(stale, &size), MPI_ERR_FILE);
    expect_only("second close of a file", MPI_File_close(&stale), MPI_ERR_FILE);
}

static void split_collectives(const char *path) {
    int word = 1, other = 2;
    MPI_File file = open_or_fail(path, MPI_MODE_RDWR);
    if (!natively_unsafe()) { /* Open MPI follows a null request */
        int code = MPI_File_read_all_end(file, &word, MPI_STATUS_IGNORE);
        CHECK(code != MPI_SUCCESS, "read_all_end without its begin succeeded");
    }
    OK(MPI_File_read_at_all_begin(file, 0, &word, 1, MPI_INT));
    if (!natively_unsafe()) {
        int code = MPI_File_read_at_all_begin(file, 0, &other, 1, MPI_INT);
        CHECK(code != MPI_SUCCESS, "a second begin on one handle succeeded");
        code = MPI_File_write_at_all_end(file, &other, MPI_STATUS_IGNORE);
        CHECK(code != MPI_SUCCESS, "the end of another operation than begun succeeded");
    }
    OK(MPI_File_read_at_all_end(file, &word, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
}

/* ---- no space ---- */

static void full_directory(void) {
    const char *directory = getenv("PARIO_TEST_FULL_DIR");
    char path[4096];
    static char megabyte[1 << 20];
    MPI_File file;
    if (!directory) return;
    snprintf(path, sizeof path, "%s/errors.full", directory);
    if (client_rank == 0) unlink(path);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(try_open(path, MPI_MODE_RDWR | MPI_MODE_CREATE, &file));
    MPI_Offset mine = (MPI_Offset)client_rank * (MPI_Offset)sizeof megabyte;
    expect_only("write_at on a full disk",
                MPI_File_write_at(file, mine, megabyte, sizeof megabyte, MPI_BYTE, MPI_STATUS_IGNORE),
                MPI_ERR_NO_SPACE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!natively_unsafe()) /* ROMIO and OMPIO may wait for ever in the collective */
        expect_only("write_at_all on a full disk",
                    MPI_File_write_at_all(file, mine, megabyte, sizeof megabyte, MPI_BYTE,
                                          MPI_STATUS_IGNORE),
                    MPI_ERR_NO_SPACE);
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == 0) unlink(path);
}

static void file_size_limit(const char *path) {
    struct rlimit before, limited;
    int word = 1;
    MPI_File file = open_or_fail(path, MPI_MODE_RDWR);
    if (getrlimit(RLIMIT_FSIZE, &before) != 0) FAIL("getrlimit");
    limited = before;
    limited.rlim_cur = 1 << 20;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limited) != 0) FAIL("setrlimit");
    int code = MPI_File_write_at(file, 1 << 21, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (setrlimit(RLIMIT_FSIZE, &before) != 0) FAIL("setrlimit back");
    expect_class("write beyond the limit of the file size", code, MPI_ERR_NO_SPACE, MPI_ERR_IO, MPI_ERR_QUOTA);
    OK(MPI_File_close(&file));
}

/* ---- handlers ---- */

static int handler_calls, handler_code;
static MPI_File handler_file;

static void remember(MPI_File *file, int *code, ...) {
    handler_calls++;
    handler_file = *file;
    handler_code = *code;
}

static void expect_handler(const char *what, MPI_File file, int code) {
    CHECK_PARIO(handler_calls == 1, "%s: handler called %d times", what, handler_calls);
    CHECK_PARIO(handler_calls == 0 || handler_file == file, "%s: handler got another handle", what);
    CHECK_PARIO(handler_calls == 0 || class_of(handler_code) == class_of(code),
                "%s: handler got code %d, the call returned %d", what, handler_code, code);
    handler_calls = 0;
}

static void handlers(const char *path) {
    int word = 1;
    MPI_Errhandler mine, got;
    MPI_File file;
    MPI_File_create_errhandler(remember, &mine);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    handler_calls = 0;
    int code = try_open(scratch("missing"), MPI_MODE_RDWR, &file);
    expect_handler("failed open", MPI_FILE_NULL, code);
    if (client_rank == 0) {
        code = MPI_File_delete(scratch("missing"), MPI_INFO_NULL);
        expect_handler("failed delete", MPI_FILE_NULL, code);
    }
    handler_calls = 0;
    file = open_or_fail(path, MPI_MODE_RDONLY);
    OK(MPI_File_get_errhandler(file, &got));
    CHECK_PARIO(got == mine, "a new file did not inherit the handler of MPI_FILE_NULL");
    MPI_Errhandler_free(&got);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_File_set_errhandler(file, mine));
    MPI_Errhandler_free(&mine);
    handler_calls = 0;
    code = MPI_File_write_at(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS, "a handler that returns hid the error");
    expect_handler("write on read-only", file, code);
    OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    MPI_File_write_at(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(handler_calls == 0, "a replaced handler was called");
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    const char *path;
    client_start(&argc, &argv);
    /* Some libraries raise errors of file calls on a communicator. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    path = strdup(scratch("errors.data"));
    make_file(path);
    names(path);
    access_modes(path);
    permissions(path);
    read_only(path);
    write_only(path);
    arguments(path);
    arguments_that_differ(path);
    datatypes(path);
    sequential(path);
    handles(path);
    split_collectives(path);
    full_directory();
    file_size_limit(path);
    /* MPICH fails assertions of its own: handlers of MPI_FILE_NULL are freed once too often. */
    if (!natively_unsafe() || library_is("Open MPI")) handlers(path);
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
    return client_end();
}
