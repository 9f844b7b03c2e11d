/* ranks: 1 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 4 */
/* seconds: 240 */
/*
 * Datatypes of many levels, also on a thread with a small stack. They are neither committed nor
 * freed, since the libraries themselves overflow the stack then; pario asks for neither. Levels that
 * change nothing collapse; a structure that grows by one member with each level becomes a list.
 */
#include "client.h"
#include <pthread.h>

enum { COLLAPSING = 100000, GROWING = 2000, GAP = 5 };

static MPI_File file;

static MPI_Datatype collapsing(int levels) {
    MPI_Datatype type = MPI_INT;
    for (int level = 0; level < levels; level++) {
        MPI_Datatype outer;
        switch (level % 3) {
        case 0: OK(MPI_Type_dup(type, &outer)); break;
        case 1: OK(MPI_Type_contiguous(1, type, &outer)); break;
        default: OK(MPI_Type_create_resized(type, 0, 4, &outer));
        }
        if (type != MPI_INT) OK(MPI_Type_free(&type));
        type = outer;
    }
    return type;
}

static int place(int level) { return level * GAP + level * level % 3; }

static MPI_Datatype growing(int levels) {
    MPI_Datatype type = MPI_CHAR;
    for (int level = 1; level <= levels; level++) {
        MPI_Datatype outer, types[] = {type, level % 2 ? MPI_CHAR : MPI_SHORT};
        MPI_Aint places[] = {0, place(level)};
        OK(MPI_Type_create_struct(2, (int[]){1, 1}, places, types, &outer));
        if (level > 1) OK(MPI_Type_free(&type));
        type = outer;
    }
    return type;
}

static void moves(MPI_Datatype type, const unsigned char *memory, const unsigned char *data, int bytes) {
    unsigned char *found = malloc((size_t)bytes);
    MPI_Offset size = -1;
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_write_at_all(file, 0, memory, 1, type, MPI_STATUS_IGNORE));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == bytes, "%lld bytes in the file, expected %d", (long long)size, bytes);
    OK(MPI_File_read_at(file, 0, found, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT_BYTES("deep", found, data, (size_t)bytes);
    free(found);
}

static void *on_any_stack(void *unused) {
    static unsigned char memory[(GROWING + 2) * GAP], data[2 * GROWING + 1];
    int bytes = 0;
    for (size_t i = 0; i < sizeof memory; i++) memory[i] = (unsigned char)(i * 13 + i / 256);
    for (int level = 0; level <= GROWING; level++) {
        data[bytes++] = memory[place(level)];
        if (level > 0 && level % 2 == 0) data[bytes++] = memory[place(level) + 1];
    }
    MPI_Datatype flat = collapsing(COLLAPSING), deep = growing(GROWING);
    moves(flat, memory, memory, 4);
    moves(deep, memory, data, bytes);
    return unused;
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    client_describe(argv[0]);
    const char *path = scratch("deep.data");
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    on_any_stack(NULL);
    if (level >= MPI_THREAD_SERIALIZED) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 256 << 10);
        CHECK(pthread_create(&thread, &attributes, on_any_stack, NULL) == 0, "a thread");
        pthread_join(thread, NULL);
    }
    OK(MPI_File_close(&file));
    return client_end();
}
