/* ranks: 1 2 5 8 */
/* mpis: all */
/* pario: both */
/* calls: at least 40 */
/*
 * What statuses say: bytes that really moved, also at the end of the file, through strided views,
 * with zero counts, after non-blocking and split calls.
 */
#include "client.h"

enum { FILE_BYTES = 98, STRIDE = 12, PIECE = 4 };

static unsigned char content(MPI_Offset offset) { return (unsigned char)(offset * 7 + 3); }

static MPI_File open_with_content(void) {
    const char *path = scratch("statuses.data");
    unsigned char bytes[FILE_BYTES];
    MPI_File file;
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    for (int i = 0; i < FILE_BYTES; i++) bytes[i] = content(i);
    if (client_rank == 0) OK(MPI_File_write_at(file, 0, bytes, FILE_BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    settle(file, MPI_COMM_WORLD);
    return file;
}

/* A status full of junk: every field that a call promises must be set by it. */
static MPI_Status *junk(MPI_Status *status) {
    memset(status, 0x77, sizeof *status);
    return status;
}

/* Every way to ask for the number of bytes gives the same answer. */
static void expect_bytes(const char *what, MPI_Status *status, int expected) {
    int count = -1, elements = -1, cancelled = -1;
    MPI_Count elements_x = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Get_elements(status, MPI_BYTE, &elements);
    MPI_Get_elements_x(status, MPI_BYTE, &elements_x);
    MPI_Test_cancelled(status, &cancelled);
    CHECK_PARIO(count == expected, "%s: MPI_Get_count %d, expected %d", what, count, expected);
    CHECK_PARIO(elements == expected, "%s: MPI_Get_elements %d, expected %d", what, elements, expected);
    CHECK_PARIO(elements_x == expected, "%s: MPI_Get_elements_x %lld, expected %d", what,
                (long long)elements_x, expected);
    CHECK_PARIO(cancelled == 0, "%s: cancelled is %d", what, cancelled);
#if HAVE_LARGE_COUNT
    MPI_Count count_c = -1, elements_c = -1;
    MPI_Get_count_c(status, MPI_BYTE, &count_c);
    MPI_Get_elements_c(status, MPI_BYTE, &elements_c);
    CHECK_PARIO(count_c == expected && elements_c == expected,
                "%s: MPI_Get_count_c %lld, MPI_Get_elements_c %lld, expected %d", what,
                (long long)count_c, (long long)elements_c, expected);
#endif
}

static void at_the_end(MPI_File file) {
    char buffer[64];
    MPI_Status status;
    OK(MPI_File_read_at(file, 90, buffer, 64, MPI_BYTE, junk(&status)));
    expect_bytes("read_at over the end", &status, 8);
    OK(MPI_File_read_at(file, FILE_BYTES, buffer, 64, MPI_BYTE, junk(&status)));
    expect_bytes("read_at at the end", &status, 0);
    OK(MPI_File_read_at(file, 1000, buffer, 64, MPI_BYTE, junk(&status)));
    expect_bytes("read_at beyond the end", &status, 0);
    OK(MPI_File_read_at_all(file, 90 - client_rank, buffer, 64, MPI_BYTE, junk(&status)));
    expect_bytes("read_at_all over the end", &status, 8 + client_rank);
    OK(MPI_File_read_at_all(file, 200, buffer, 64, MPI_BYTE, junk(&status)));
    expect_bytes("read_at_all beyond the end", &status, 0);

    MPI_Offset position = -1;
    OK(MPI_File_seek(file, 90, MPI_SEEK_SET));
    OK(MPI_File_read(file, buffer, 64, MPI_BYTE, junk(&status)));
    expect_bytes("read over the end", &status, 8);
    /* MPI-4.1, 14.4.3 moves the pointer by what was asked for; ROMIO moves it by what was there. */
    OK(MPI_File_get_position(file, &position));
    CHECK(position == 90 + 64 || position == FILE_BYTES, "after a short read the position is %lld",
          (long long)position);
}

/* 12 bytes are 3 ints: one and a half pairs. */
static void partial_elements(MPI_File file) {
    int buffer[8], count = -1, elements = -1;
    MPI_Count elements_x = -1;
    MPI_Status status;
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    OK(MPI_File_read_at(file, FILE_BYTES - 12, buffer, 4, pair, junk(&status)));
    MPI_Get_count(&status, pair, &count);
    MPI_Get_elements(&status, pair, &elements);
    MPI_Get_elements_x(&status, pair, &elements_x);
    CHECK(count == MPI_UNDEFINED, "12 bytes in pairs: count %d, expected MPI_UNDEFINED", count);
    CHECK(elements == 3 && elements_x == 3, "12 bytes in pairs: elements %d and %lld, expected 3",
          elements, (long long)elements_x);
    OK(MPI_File_read_at(file, FILE_BYTES - 16, buffer, 4, pair, junk(&status)));
    EXPECT_COUNT("16 bytes in pairs", &status, pair, 2);
    MPI_Type_free(&pair);
}

static void set_strided_view(MPI_File file, MPI_Offset disp) {
    MPI_Datatype piece, strided;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, STRIDE, &strided);
    MPI_Type_commit(&strided);
    OK(MPI_File_set_view(file, disp, MPI_BYTE, strided, "native", MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&strided);
}

/* The bytes of the strided view that lie before the end of the file. */
static int visible_bytes(MPI_Offset disp, int asked) {
    int seen = 0;
    for (int i = 0; i < asked; i++) seen += disp + i / PIECE * STRIDE + i % PIECE < FILE_BYTES;
    return seen;
}

static void expect_strided(const char *what, const unsigned char *got, MPI_Offset disp, int bytes) {
    for (int i = 0; i < bytes; i++) {
        MPI_Offset offset = disp + i / PIECE * STRIDE + i % PIECE;
        CHECK(got[i] == content(offset), "%s: byte %d (offset %lld): expected 0x%02x, got 0x%02x", what,
              i, (long long)offset, content(offset), got[i]);
    }
}

/* Open MPI's OMPIO asks again for ever when a non-blocking read meets the end of the file. */
static int natively_endless(void) { return client_is_native && library_is("Open MPI"); }

static void strided_over_the_end(MPI_File file) {
    MPI_Offset disp = client_rank % 3 * PIECE;
    int seen = visible_bytes(disp, 60);
    unsigned char buffer[60];
    MPI_Status status;
    MPI_Request request;
    set_strided_view(file, disp);

    OK(MPI_File_read_at(file, 0, buffer, 60, MPI_BYTE, junk(&status)));
    expect_bytes("strided read_at over the end", &status, seen);
    expect_strided("strided read_at over the end", buffer, disp, seen);
    OK(MPI_File_read_at_all(file, 0, buffer, 60, MPI_BYTE, junk(&status)));
    expect_bytes("strided read_at_all over the end", &status, seen);
    expect_strided("strided read_at_all over the end", buffer, disp, seen);
    if (!natively_endless()) {
        OK(MPI_File_iread_at(file, 0, buffer, 60, MPI_BYTE, &request));
        OK(MPI_Wait(&request, junk(&status)));
        expect_bytes("strided iread_at over the end", &status, seen);
        OK(MPI_File_read_at_all_begin(file, 0, buffer, 60, MPI_BYTE));
        OK(MPI_File_read_at_all_end(file, buffer, junk(&status)));
        expect_bytes("strided read_at_all_end over the end", &status, seen);
    }
    OK(MPI_File_read_at(file, 400, buffer, 60, MPI_BYTE, junk(&status)));
    expect_bytes("strided read_at beyond the end", &status, 0);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void zero_counts(MPI_File file) {
    char buffer[1];
    MPI_Status status;
    MPI_Request request;
    OK(MPI_File_read_at(file, 0, buffer, 0, MPI_BYTE, junk(&status)));
    expect_bytes("read_at of nothing", &status, 0);
    OK(MPI_File_write_at(file, 5000, NULL, 0, MPI_BYTE, junk(&status)));
    expect_bytes("write_at of nothing", &status, 0);
    OK(MPI_File_read_all(file, buffer, 0, MPI_BYTE, junk(&status)));
    expect_bytes("read_all of nothing", &status, 0);
    /* Some ranks have nothing to write, one has: all take part. */
    OK(MPI_File_write_at_all(file, 0, "\003", client_rank == 0 ? 1 : 0, MPI_BYTE, junk(&status)));
    expect_bytes("write_at_all of nothing on some ranks", &status, client_rank == 0 ? 1 : 0);
    OK(MPI_File_iwrite_at(file, 0, buffer, 0, MPI_BYTE, &request));
    OK(MPI_Wait(&request, junk(&status)));
    expect_bytes("iwrite_at of nothing", &status, 0);
    OK(MPI_File_iread_all(file, buffer, 0, MPI_BYTE, &request));
    OK(MPI_Wait(&request, junk(&status)));
    expect_bytes("iread_all of nothing", &status, 0);
    OK(MPI_File_read_ordered(file, buffer, 0, MPI_BYTE, junk(&status)));
    expect_bytes("read_ordered of nothing", &status, 0);
    OK(MPI_File_write_all_begin(file, buffer, 0, MPI_BYTE));
    OK(MPI_File_write_all_end(file, buffer, junk(&status)));
    expect_bytes("write_all_end of nothing", &status, 0);
    MPI_Offset size = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == FILE_BYTES, "writing nothing changed the size to %lld", (long long)size);
}

static void ignored(MPI_File file) {
    char buffer[8];
    MPI_Request request, requests[2];
    OK(MPI_File_read_at(file, 0, buffer, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 0, buffer, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_ordered(file, buffer, 0, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_iread_at(file, 0, buffer, 8, MPI_BYTE, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_iread_at(file, 0, buffer, 4, MPI_BYTE, &requests[0]));
    OK(MPI_File_iread_at(file, 4, buffer + 4, 4, MPI_BYTE, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_File_read_at_all_begin(file, 0, buffer, 8, MPI_BYTE));
    OK(MPI_File_read_at_all_end(file, buffer, MPI_STATUS_IGNORE));
}

/* Four reads that see 20, 8, 0 and 0 bytes, completed by each of MPI's ways. */
static void start_four(MPI_File file, char buffers[4][32], MPI_Request requests[4]) {
    static const MPI_Offset offsets[4] = {0, 90, 300, 0};
    static const int counts[4] = {20, 32, 32, 0};
    for (int i = 0; i < 4; i++)
        OK(MPI_File_iread_at(file, offsets[i], buffers[i], counts[i], MPI_BYTE, &requests[i]));
}

static void nonblocking(MPI_File file) {
    static const int seen[4] = {20, 8, 0, 0};
    char buffers[4][32];
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int done = 0, index = -1, indices[4], outcount;

    start_four(file, buffers, requests);
    OK(MPI_Waitall(4, requests, statuses));
    for (int i = 0; i < 4; i++) expect_bytes("Waitall", &statuses[i], seen[i]);

    start_four(file, buffers, requests);
    for (int left = 4; left > 0; left--) {
        OK(MPI_Waitany(4, requests, &index, &statuses[0]));
        CHECK(index >= 0 && index < 4, "Waitany gave index %d", index);
        expect_bytes("Waitany", &statuses[0], seen[index]);
    }

    start_four(file, buffers, requests);
    for (int left = 4; left > 0; left -= outcount) {
        OK(MPI_Waitsome(4, requests, &outcount, indices, statuses));
        CHECK(outcount > 0 && outcount <= left, "Waitsome completed %d of %d", outcount, left);
        for (int i = 0; i < outcount; i++) expect_bytes("Waitsome", &statuses[i], seen[indices[i]]);
    }

    start_four(file, buffers, requests);
    for (int i = 0; i < 4; i++) {
        for (done = 0; !done;) OK(MPI_Test(&requests[i], &done, &statuses[i]));
        CHECK(requests[i] == MPI_REQUEST_NULL, "a finished request is not MPI_REQUEST_NULL");
        expect_bytes("Test", &statuses[i], seen[i]);
    }
}

/* The status counts data, not the holes of the memory type. */
static void memory_with_holes(MPI_File file) {
    int buffer[16];
    MPI_Datatype every_second;
    MPI_Status status;
    MPI_Type_vector(3, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    OK(MPI_File_read_at(file, 0, buffer, 2, every_second, junk(&status)));
    expect_bytes("a type with holes", &status, 24);
    EXPECT_COUNT("a type with holes", &status, every_second, 2);
    EXPECT_COUNT("a type with holes, in ints", &status, MPI_INT, 6);
    OK(MPI_File_read_at_all(file, FILE_BYTES - 8, buffer, 2, every_second, junk(&status)));
    expect_bytes("a type with holes over the end", &status, 8);
    MPI_Type_free(&every_second);
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    MPI_File file = open_with_content();
    at_the_end(file);
    partial_elements(file);
    strided_over_the_end(file);
    zero_counts(file);
    ignored(file);
    if (!natively_endless()) nonblocking(file);
    memory_with_holes(file);
    OK(MPI_File_close(&file));
    return client_end();
}
