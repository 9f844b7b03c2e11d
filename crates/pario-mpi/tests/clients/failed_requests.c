/* ranks: 1 2 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 20 */
/*
 * A non-blocking call that fails leaves MPI_REQUEST_NULL or a request that ends with the error,
 * whatever was in its place before: a program that waits all the same must not meet an old request.
 * And buffers that are null pointers, in calls of all kinds: an error unless the datatype is
 * absolute (MPI_BOTTOM is the null pointer in every library).
 */
#include "client.h"

static char byte = 1;

/* The request before the call is one that is still open: a receive that nobody sends to. */
static void expect_no_old_request(const char *what, int code, MPI_Request request, MPI_Request old) {
    CHECK(code != MPI_SUCCESS || request != MPI_REQUEST_NULL, "%s: success without a request", what);
    CHECK(request != old, "%s: the old request was left", what);
    if (code != MPI_SUCCESS)
        CHECK(request == MPI_REQUEST_NULL, "%s: an error and a request", what);
    else
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS, "%s: no error at all", what);
}

#define EXPECT_NO_OLD_REQUEST(call) \
    do { \
        MPI_Request request = old; \
        int code = (call); \
        expect_no_old_request(#call, code, request, old); \
    } while (0)

static void requests(MPI_File file, MPI_Request old) {
    MPI_File none = MPI_FILE_NULL;
    void *volatile null = NULL;
    EXPECT_NO_OLD_REQUEST(MPI_File_iread_at(file, -1, &byte, 1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iwrite_at(file, -1, &byte, 1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iread(file, &byte, -1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iwrite(file, &byte, 1, MPI_DATATYPE_NULL, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iread_shared(file, &byte, -1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iwrite_shared(file, null, 1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iread_at_all(file, -1, &byte, 1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iwrite_at_all(file, 0, null, 1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iread_all(file, &byte, -1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iwrite_all(file, &byte, 1, MPI_DATATYPE_NULL, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iread_at(none, 0, &byte, 1, MPI_BYTE, &request));
    EXPECT_NO_OLD_REQUEST(MPI_File_iwrite_all(none, &byte, 1, MPI_BYTE, &request));
    int code = MPI_File_iwrite_at(file, 0, &byte, 1, MPI_BYTE, NULL);
    CHECK(code != MPI_SUCCESS, "a call without a place for its request succeeded");
}

static void expect_class(const char *what, int code, int class) {
    CHECK(class_of(code) == class, "%s: class %d, expected %d", what, class_of(code), class);
}

static void null_buffers(MPI_File file) {
    void *volatile null = NULL;
    MPI_Status status;
    MPI_Datatype vector;
    MPI_Type_vector(2, 1, 8192, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    expect_class("write_at", MPI_File_write_at(file, 0, null, 4, MPI_BYTE, &status), MPI_ERR_ARG);
    expect_class("read_at", MPI_File_read_at(file, 0, null, 4, MPI_BYTE, &status), MPI_ERR_ARG);
    expect_class("write of a vector", MPI_File_write_at(file, 0, null, 1, vector, &status), MPI_ERR_ARG);
    expect_class("write_all", MPI_File_write_at_all(file, 0, null, 1, MPI_INT, &status), MPI_ERR_ARG);
    expect_class("read_shared", MPI_File_read_shared(file, null, 1, MPI_INT, &status), MPI_ERR_ARG);
    OK(MPI_File_write_at(file, 0, null, 0, MPI_BYTE, &status));
    EXPECT_COUNT("nothing", &status, MPI_BYTE, 0);
    OK(MPI_File_read_at_all(file, 0, null, 0, vector, &status));
    MPI_Type_free(&vector);
}

static void absolute_types(MPI_File file) {
    static int values[4] = {1, 2, 3, 4}, back[4];
    MPI_Datatype from, to;
    MPI_Status status;
    MPI_Aint places[2];
    int lengths[2] = {2, 2};
    MPI_Get_address(&values[0], &places[0]);
    MPI_Get_address(&values[2], &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &from);
    MPI_Get_address(&back[2], &places[0]);
    MPI_Get_address(&back[0], &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &to);
    MPI_Type_commit(&from);
    MPI_Type_commit(&to);
    MPI_Offset mine = client_rank * 16;
    OK(MPI_File_write_at_all(file, mine, MPI_BOTTOM, 1, from, &status));
    EXPECT_COUNT("write_at_all from MPI_BOTTOM", &status, MPI_INT, 4);
    OK(MPI_File_read_at(file, mine, MPI_BOTTOM, 1, to, &status));
    EXPECT_COUNT("read_at to MPI_BOTTOM", &status, MPI_INT, 4);
    CHECK(back[0] == 3 && back[1] == 4 && back[2] == 1 && back[3] == 2, "read %d %d %d %d", back[0],
          back[1], back[2], back[3]);
    MPI_Type_free(&from);
    MPI_Type_free(&to);
}

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Request old;
    int word;
    client_start(&argc, &argv);
    /* Errors of requests are raised on a communicator by some libraries. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    remove_first(scratch("failed_requests.data"));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("failed_requests.data"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    MPI_Irecv(&word, 1, MPI_INT, client_rank, 77, MPI_COMM_WORLD, &old);
    requests(file, old);
    null_buffers(file);
    absolute_types(file);
    MPI_Send(&client_rank, 1, MPI_INT, client_rank, 77, MPI_COMM_WORLD);
    OK(MPI_Wait(&old, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    return client_end();
}
