/* ranks: 1 2 5 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 300 */
/*
 * Files that are opened one after the other on the same communicators. The ranks keep what they share
 * from file to file; nothing of an earlier file may be seen in a later one, whatever became of it.
 */
#include "client.h"

#include <fcntl.h>
#include <pthread.h>

enum { TURNS = 24, BYTES = 40000, COMMUNICATORS = 20 };

static unsigned char values[BYTES], back[BYTES];

static unsigned char value(int turn, int rank, int index) {
    return (unsigned char)(turn * 37 + rank * 101 + index * 7 + index / 251);
}

static void fill(int turn) {
    for (int i = 0; i < BYTES; i++) values[i] = value(turn, client_rank, i);
}

/* What all ranks wrote in pieces, in turn; rank 0 reads it without MPI. */
static void expect_file(const char *name, int turn, int bytes, int piece) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == 0) {
        int file = open(scratch(name), O_RDONLY);
        CHECK(file >= 0, "turn %d: %s is not there", turn, name);
        for (int i = 0; i < bytes / piece; i++)
            for (int rank = 0; rank < client_size; rank++) {
                CHECK(read(file, back, piece) == piece, "turn %d: piece %d of rank %d", turn, i, rank);
                for (int j = 0; j < piece; j++)
                    CHECK(back[j] == value(turn, rank, i * piece + j), "turn %d: rank %d, byte %d: got %d",
                          turn, rank, i * piece + j, back[j]);
            }
        CHECK(read(file, back, 1) == 0, "turn %d: %s is too long", turn, name);
        close(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_File open_on(MPI_Comm comm, const char *name) {
    MPI_File file;
    OK(MPI_File_open(comm, scratch(name), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    return file;
}

/* Every file has another size, and other pieces. */
static int bytes_of(int turn) { return (turn % 5 == 4 ? 40 : 1) * 1000; }
static int piece_of(int turn) { return turn % 3 == 0 ? 8 : turn % 3 == 1 ? 100 : 1000; }

static void write_file(MPI_File file, int turn) {
    interleave(file, piece_of(turn));
    fill(turn);
    OK(MPI_File_write_at_all(file, 0, values, bytes_of(turn), MPI_BYTE, MPI_STATUS_IGNORE));
    memset(back, 0, bytes_of(turn));
    OK(MPI_File_read_at_all(file, 0, back, bytes_of(turn), MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT_BYTES("read in the same turn", back, values, bytes_of(turn));
}

/* The shared file pointer begins at 0, wherever the last file left it. */
static void move_shared_pointer(MPI_File file, int turn) {
    MPI_Offset position = -1;
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == 0, "turn %d: the shared file pointer begins at %lld", turn, (long long)position);
    MPI_Barrier(MPI_COMM_WORLD);
    if (turn % 2) OK(MPI_File_read_shared(file, back, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    if (turn % 4 == 1) OK(MPI_File_seek_shared(file, 1234, MPI_SEEK_SET));
}

/* Calls that fail, and leave ranks at different places of them. */
static void fail_somehow(MPI_File file, int turn) {
    int code, is_wrong = client_rank == turn % client_size;
    switch (turn % 4) {
    case 0:
        code = MPI_File_write_at_all(file, 0, values, is_wrong ? -1 : BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
        CHECK(class_of(code) == MPI_ERR_COUNT, "turn %d: a bad count gives class %d", turn, class_of(code));
        break;
    case 1:
        code = is_wrong ? MPI_File_set_size(file, 0)
                        : MPI_File_read_at_all(file, 0, back, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
        CHECK(client_size == 1 || class_of(code) == MPI_ERR_NOT_SAME, "turn %d: different calls give class %d",
              turn, class_of(code));
        break;
    case 2:
        code = MPI_File_set_size(file, is_wrong ? 77 : 99);
        CHECK(client_size == 1 || class_of(code) == MPI_ERR_NOT_SAME, "turn %d: sizes give class %d", turn,
              class_of(code));
        break;
    default:
        code = MPI_File_open(MPI_COMM_WORLD, scratch("files_in_turn.none"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
        CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE, "turn %d: no file gives class %d", turn, class_of(code));
    }
}

/* Which memory this rank shares with others, as the sum of the inodes; and how many there are. */
static long shared_memory(int *count) {
    char line[4096];
    long inode, sum = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps, "no /proc/self/maps");
    *count = 0;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:pario (deleted)") && sscanf(line, "%*s %*s %*s %*s %ld", &inode) == 1)
            sum += inode, ++*count;
    fclose(maps);
    return sum;
}

static void one_after_the_other(void) {
    int before = 0, after = 0;
    long first = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_File file = open_on(MPI_COMM_WORLD, "files_in_turn.data");
        move_shared_pointer(file, turn);
        write_file(file, turn);
        OK(MPI_File_close(&file));
        expect_file("files_in_turn.data", turn, bytes_of(turn), piece_of(turn));
        file = open_on(MPI_COMM_WORLD, "files_in_turn.other");
        fail_somehow(file, turn);
        OK(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        if (client_rank == 0) unlink(scratch("files_in_turn.data")), unlink(scratch("files_in_turn.other"));
        MPI_Barrier(MPI_COMM_WORLD);
        long now = shared_memory(&after);
        if (turn == 4) first = now, before = after;
        CHECK(turn < 4 || (now == first && after == before), "turn %d: files do not use the same memory", turn);
    }
}

/* Files that are open at the same time have nothing in common; they are closed in another order. */
static void at_the_same_time(void) {
    const char *names[] = {"files_in_turn.0", "files_in_turn.1", "files_in_turn.2"};
    MPI_File files[3];
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 3; i++) files[i] = open_on(MPI_COMM_WORLD, names[i]);
        for (int i = 2; i >= 0; i--) write_file(files[i], 3 * round + i);
        OK(MPI_File_close(&files[round % 3]));
        files[round % 3] = open_on(MPI_COMM_WORLD, names[round % 3]);
        for (int i = 0; i < 3; i++) OK(MPI_File_close(&files[(round + 2 * i) % 3]));
        for (int i = 0; i < 3; i++)
            expect_file(names[i], 3 * round + i, bytes_of(3 * round + i), piece_of(3 * round + i));
        if (client_rank == 0) for (int i = 0; i < 3; i++) unlink(scratch(names[i]));
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void write_and_expect(MPI_Comm comm, int turn, MPI_Comm *freed) {
    MPI_File file = open_on(comm, "files_in_turn.data");
    if (freed) MPI_Comm_free(freed);
    write_file(file, turn);
    OK(MPI_File_close(&file));
    expect_file("files_in_turn.data", turn, bytes_of(turn), piece_of(turn));
    if (client_rank == 0) unlink(scratch("files_in_turn.data"));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Communicators come and go, before and after the files on them; more than memory is kept for. */
static void on_many_communicators(void) {
    MPI_Comm comms[COMMUNICATORS];
    int count = 0, mine = 0;
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        write_and_expect(comms[i], i, NULL);
    }
    for (int i = COMMUNICATORS - 1; i >= 0; i--) {
        write_and_expect(comms[i], i, i % 3 ? NULL : &comms[i]);
        write_and_expect(MPI_COMM_WORLD, i + 1, NULL);
        if (i % 3) MPI_Comm_free(&comms[i]);
    }
    shared_memory(&mine);
    MPI_Allreduce(&mine, &count, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(count <= 8, "%d pieces of shared memory are kept", count);
    for (int i = 0; i < 100; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
        write_and_expect(comms[0], i, i % 2 ? &comms[0] : NULL);
        if (i % 2 == 0) MPI_Comm_free(&comms[0]);
    }
}

/* One thread closes a file while another opens one, on the same communicator. */
static void *close_it(void *file) {
    OK(MPI_File_close((MPI_File *)file));
    return NULL;
}

static void closed_meanwhile(void) {
    MPI_File one = open_on(MPI_COMM_WORLD, "files_in_turn.0"), two;
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, close_it, &one) == 0, "pthread_create");
        two = open_on(MPI_COMM_WORLD, turn % 2 ? "files_in_turn.0" : "files_in_turn.1");
        OK(MPI_File_set_size(two, 0));
        write_file(two, turn);
        CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
        one = two;
    }
    OK(MPI_File_close(&one));
    expect_file("files_in_turn.0", TURNS - 1, bytes_of(TURNS - 1), piece_of(TURNS - 1));
    if (client_rank == 0) unlink(scratch("files_in_turn.0")), unlink(scratch("files_in_turn.1"));
}

int main(int argc, char **argv) {
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    client_describe(argv[0]);
    one_after_the_other();
    at_the_same_time();
    on_many_communicators();
    if (provided == MPI_THREAD_MULTIPLE) closed_meanwhile();
    return client_end();
}
