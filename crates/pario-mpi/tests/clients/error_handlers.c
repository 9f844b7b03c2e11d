/* ranks: 1 2 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 10 */
/*
 * What an error handler may do: change the code that the failed call returns, and close the file.
 *
 * It runs under pario only: the libraries' own MPI-IO does not survive a close in a handler.
 */
#include "client.h"

static int calls, left, closed_with;

static void change(MPI_File *file, int *code, ...) {
    (void)file;
    calls++;
    *code = left;
}

static void close_it(MPI_File *file, int *code, ...) {
    MPI_File mine = *file;
    (void)code;
    calls++;
    closed_with = MPI_File_close(&mine);
    CHECK(mine == MPI_FILE_NULL, "the closed handle is not null");
}

static MPI_File open_with(MPI_File_errhandler_function *function, const char *name) {
    MPI_File file;
    MPI_Errhandler handler;
    remove_first(scratch(name));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch(name),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_create_errhandler(function, &handler));
    OK(MPI_File_set_errhandler(file, handler));
    OK(MPI_Errhandler_free(&handler));
    calls = 0;
    return file;
}

static void expect(const char *what, int code, int expected, int expected_calls) {
    CHECK(code == expected, "%s: returned %d, the handler left %d", what, code, expected);
    CHECK(calls == expected_calls, "%s: the handler was called %d times", what, calls);
}

/* Every way in which a call reports an error. */
static void changed_codes(void) {
    char byte = 1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File file = open_with(change, "error_handlers.data");
    int lefts[] = {MPI_ERR_QUOTA, MPI_SUCCESS};
    for (int i = 0; i < 2; i++) {
        left = lefts[i];
        calls = 0;
        expect("write_at", MPI_File_write_at(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), left, 1);
        expect("read_at_all", MPI_File_read_at_all(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), left, 2);
        expect("set_size", MPI_File_set_size(file, -1), left, 3);
        expect("seek", MPI_File_seek(file, -1, MPI_SEEK_SET), left, 4);
        expect("iread_at", MPI_File_iread_at(file, -1, &byte, 1, MPI_BYTE, &request), left, 5);
        expect("read_all_begin", MPI_File_read_all_begin(file, &byte, -1, MPI_BYTE), left, 6);
    }
    OK(MPI_File_close(&file));
    left = MPI_ERR_QUOTA;
    MPI_Errhandler handler;
    OK(MPI_File_create_errhandler(change, &handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    calls = 0;
    expect("open", MPI_File_open(MPI_COMM_WORLD, scratch("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL,
                                 &file), MPI_ERR_QUOTA, 1);
    expect("delete", MPI_File_delete(scratch("missing"), MPI_INFO_NULL), MPI_ERR_QUOTA, 2);
    expect("a closed file", MPI_File_sync(MPI_FILE_NULL), MPI_ERR_QUOTA, 3);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
}

/* The file is closed on all ranks when the handler says so: its deletion shows it. */
static void expect_closed(const char *what, MPI_File file, int code) {
    MPI_Offset size;
    CHECK(code != MPI_SUCCESS, "%s: no error", what);
    CHECK(calls == 1, "%s: the handler was called %d times", what, calls);
    CHECK(closed_with == MPI_SUCCESS, "%s: the close in the handler gave class %d: %s", what,
          class_of(closed_with), text_of(closed_with));
    CHECK(class_of(MPI_File_get_size(file, &size)) == MPI_ERR_FILE, "%s: the file is open", what);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(access(scratch("error_handlers.data"), F_OK) != 0, "%s: the file was not closed", what);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void closing_handlers(void) {
    char byte = 1;
    MPI_File file = open_with(close_it, "error_handlers.data");
    int code = MPI_File_write_at_all(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    expect_closed("write_at_all", file, code);
    file = open_with(close_it, "error_handlers.data");
    code = MPI_File_set_size(file, -1);
    expect_closed("set_size", file, code);
    file = open_with(close_it, "error_handlers.data");
    code = MPI_File_read_at_all_begin(file, 0, &byte, -1, MPI_BYTE);
    expect_closed("read_at_all_begin", file, code);
    file = open_with(close_it, "error_handlers.data");
    code = MPI_File_write_at(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    expect_closed("write_at", file, code);
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    closing_handlers();
    changed_codes();
    MPI_Errhandler none;
    CHECK(MPI_File_create_errhandler(NULL, &none) != MPI_SUCCESS, "a handler without a function");
    return client_end();
}
