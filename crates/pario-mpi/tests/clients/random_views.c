/* ranks: 1 2 5 8 */
/* mpis: all */
/* pario: both */
/* calls: at least 400 */
/* leaves: random_views.data */
/* same: random_views.data */
/*
 * Random datatypes in memory and in the file, random views, random calls; each rank checks what
 * it reads back, and the whole file is compared with an image made by naive loops.
 *
 *     random_views [seed [cases]]        (or PARIO_SEED)
 *
 * 500 cases unless told.
 * Prints `SEED n` and `CHECKSUM hex` of the file: one seed gives one file, whatever wrote it.
 * `random_views seed cases first` runs from case `first` on, to look at one that failed.
 *
 * What the MPI library's own MPI-IO gets wrong is left out here, under pario too, so that the files
 * can be compared; random_views_wild.c has all of it.
 */
#include "random_types.h"

#include <fcntl.h>

enum { BYTES_MAX = 2048, GAP = 64, MARGIN = 1 << 16, IMAGE_MAX = 64 << 20 };

typedef struct {
    int number;
    Random common;      /* the same on all ranks */
    Random own;
    MPI_Offset base;    /* start of this case's part of the file */
    Model *etype, *filetype;
    MPI_Offset disp;
    MPI_Offset position; /* in etypes */
    int bytes;
} Case;

static unsigned char *image; /* what this rank wrote, as it must be in the file */
static uint64_t seed;

static unsigned char stream(const Case *test, int index) {
    uint32_t mixed = (uint32_t)(test->number * 2654435761u) ^ (uint32_t)(client_rank * 40503u) ^
                     (uint32_t)(index * 2246822519u);
    mixed ^= mixed >> 15;
    return (unsigned char)(mixed * 2654435761u >> 24 | 1); /* never 0, which is a hole */
}

/* ---- file side ---- */

static Model *random_etype(Random *random) {
    MPI_Datatype named[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    int choice = random_in(random, 0, 5);
    if (choice < 4) return model_named(named[choice]);
    Model *child = model_named(MPI_INT), *pair = model_new();
    MPI_Type_contiguous(2, MPI_INT, &pair->type);
    model_add_block(pair, child, 0, 2);
    model_close(pair);
    MPI_Type_commit(&pair->type);
    model_free(child);
    return pair;
}

static Model *resize(Model *child, MPI_Aint extent) {
    Model *model = model_new();
    MPI_Type_create_resized(child->type, 0, extent, &model->type);
    model_add(model, child, 0);
    model_close(model);
    model_free(child);
    return model;
}

/* Each rank's whole type in a slot of its own. */
static void filetype_in_slots(Case *test) {
    Maker maker = {&test->own, 1, test->etype->extent, test->etype};
    Model *model = random_model(&maker, random_in(&test->own, 1, 3));
    long slot = to_unit(&maker, model->lb + model->extent);
    MPI_Allreduce(MPI_IN_PLACE, &slot, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    test->filetype = resize(model, slot * client_size);
    test->disp = test->base + client_rank * slot;
}

/* Ranks interleaved etype by etype; each with another pattern. */
static void filetype_in_etypes(Case *test) {
    MPI_Aint step = test->etype->extent * client_size;
    Model *copy = model_new();
    *copy = *test->etype;
    MPI_Type_dup(test->etype->type, &copy->type);
    Model *leaf = resize(copy, step);
    Maker maker = {&test->own, 1, step, leaf};
    Model *model = random_model(&maker, random_in(&test->own, 1, 3));
    test->filetype = resize(model, to_unit(&maker, model->lb + model->extent));
    model_free(leaf);
    test->disp = test->base + client_rank * test->etype->extent;
}

/* One array distributed over all ranks. */
static void filetype_of_array(Case *test) {
    Distribution distribution;
    int grid[DIMENSIONS_MAX] = {0};
    distribution.dimensions = random_in(&test->common, 1, 3);
    MPI_Dims_create(client_size, distribution.dimensions, grid);
    memcpy(distribution.grid, grid, sizeof grid);
    random_distribution(&test->common, &distribution);
    test->filetype = make_darray_of(&distribution, client_size, client_rank, test->etype);
    model_close(test->filetype);
    test->disp = test->base;
}

/* ---- where the bytes of the view are ---- */

/* Copies between `stream position` order and the file image; the slow and obvious way. */
static MPI_Offset place_in_image(const Case *test) {
    const Model *filetype = test->filetype;
    int per_tile = model_bytes(filetype), etype_bytes = model_bytes(test->etype);
    MPI_Offset end = test->base;
    for (int i = 0; i < test->bytes; i++) {
        MPI_Offset index = test->position * etype_bytes + i;
        MPI_Offset tile = index / per_tile;
        int within = (int)(index % per_tile), piece = 0;
        while (within >= filetype->pieces[piece].bytes) within -= filetype->pieces[piece++].bytes;
        MPI_Offset at = test->disp + tile * filetype->extent + filetype->pieces[piece].offset + within;
        CHECK(at < IMAGE_MAX, "the file grew too large in case %d", test->number);
        CHECK(image[at] == 0, "case %d writes offset %lld twice", test->number, (long long)at);
        image[at] = stream(test, i);
        if (at + 1 > end) end = at + 1;
    }
    return end;
}

/* ---- memory side ---- */

typedef struct {
    Model *type;
    int count;
    unsigned char *storage, *expected; /* whole memory around the buffer */
    unsigned char *buffer;
} Memory;

/* `bytes` is the most it may hold, and a multiple of the etype; what it does hold is returned. */
static int make_memory(Case *test, Memory *memory, int bytes) {
    int mixed = test->etype->type == MPI_BYTE && random_in(&test->own, 0, 1);
    Maker maker = {&test->own, 0, mixed ? 8 : test->etype->extent, mixed ? NULL : test->etype};
    memory->type = random_model(&maker, random_in(&test->own, 0, 3));
    memory->count = bytes / model_bytes(memory->type);
    MPI_Type_commit(&memory->type->type);
    model_check_pack(memory->type);
    MPI_Aint reach = MARGIN + (MPI_Aint)(memory->count + 1) * memory->type->extent + model_end(memory->type);
    memory->storage = malloc((size_t)reach + MARGIN);
    memory->expected = malloc((size_t)reach + MARGIN);
    CHECK(memory->storage && memory->expected, "no memory");
    memset(memory->storage, 0xee, (size_t)reach + MARGIN);
    memset(memory->expected, 0xee, (size_t)reach + MARGIN);
    memory->buffer = memory->storage + MARGIN;
    return memory->count * model_bytes(memory->type);
}

/* Puts the case's stream where the memory type has its data. */
static void lay_out(const Case *test, const Memory *memory, unsigned char *start) {
    int index = 0;
    for (int i = 0; i < memory->count; i++)
        for (int p = 0; p < memory->type->count; p++) {
            const Piece *piece = &memory->type->pieces[p];
            for (int b = 0; b < piece->bytes; b++)
                start[i * memory->type->extent + piece->offset + b] = stream(test, index++);
        }
}

static void free_memory(Memory *memory) {
    model_free(memory->type);
    free(memory->storage);
    free(memory->expected);
}

/* ---- the calls ---- */

static void write_somehow(Case *test, MPI_File file, Memory *memory, MPI_Status *status) {
    MPI_Datatype type = memory->type->type;
    MPI_Request request;
    OK(MPI_File_seek(file, test->position, MPI_SEEK_SET));
    switch (random_in(&test->common, 0, 8)) {
    case 0: OK(MPI_File_write_at(file, test->position, memory->buffer, memory->count, type, status)); break;
    case 1: OK(MPI_File_write(file, memory->buffer, memory->count, type, status)); break;
    case 2: OK(MPI_File_write_all(file, memory->buffer, memory->count, type, status)); break;
    case 3:
        OK(MPI_File_iwrite_at(file, test->position, memory->buffer, memory->count, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 4:
        OK(MPI_File_iwrite_at_all(file, test->position, memory->buffer, memory->count, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 5:
        OK(MPI_File_write_all_begin(file, memory->buffer, memory->count, type));
        OK(MPI_File_write_all_end(file, memory->buffer, status));
        break;
    default: OK(MPI_File_write_at_all(file, test->position, memory->buffer, memory->count, type, status));
    }
}

static void read_somehow(Case *test, MPI_File file, Memory *memory, MPI_Status *status) {
    MPI_Datatype type = memory->type->type;
    MPI_Request request;
    OK(MPI_File_seek(file, test->position, MPI_SEEK_SET));
    switch (random_in(&test->common, 0, 6)) {
    case 0: OK(MPI_File_read_at(file, test->position, memory->buffer, memory->count, type, status)); break;
    case 1: OK(MPI_File_read_all(file, memory->buffer, memory->count, type, status)); break;
    case 2:
        OK(MPI_File_iread_at(file, test->position, memory->buffer, memory->count, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 3:
        OK(MPI_File_iread_all(file, memory->buffer, memory->count, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 4:
        OK(MPI_File_read_at_all_begin(file, test->position, memory->buffer, memory->count, type));
        OK(MPI_File_read_at_all_end(file, memory->buffer, status));
        break;
    default: OK(MPI_File_read_at_all(file, test->position, memory->buffer, memory->count, type, status));
    }
}

/* Up to four tiles of the filetype, in whole etypes; sparse types would make huge files else. */
static int random_size(Case *test) {
    int etype_bytes = model_bytes(test->etype), most = 4 * model_bytes(test->filetype);
    if (most > BYTES_MAX) most = BYTES_MAX;
    return random_in(&test->own, 0, most / etype_bytes) * etype_bytes;
}

static void write_case(Case *test, MPI_File file) {
    Memory memory;
    MPI_Status status;
    char what[64];
    snprintf(what, sizeof what, "write of case %d", test->number);
    test->bytes = make_memory(test, &memory, random_size(test));
    lay_out(test, &memory, memory.buffer);
    write_somehow(test, file, &memory, &status);
    EXPECT_COUNT(what, &status, MPI_BYTE, test->bytes);
    free_memory(&memory);
}

static void read_case(Case *test, MPI_File file) {
    Memory memory;
    MPI_Status status;
    char what[64];
    snprintf(what, sizeof what, "read of case %d", test->number);
    int bytes = make_memory(test, &memory, test->bytes);
    lay_out(test, &memory, memory.expected + MARGIN);
    read_somehow(test, file, &memory, &status);
    EXPECT_COUNT(what, &status, MPI_BYTE, bytes);
    size_t whole = MARGIN + (size_t)memory.count * (size_t)memory.type->extent + MARGIN;
    EXPECT_BYTES(what, memory.storage, memory.expected, whole);
    free_memory(&memory);
}

/* Hints change the way, never the result. */
static MPI_Info random_hints(Random *common) {
    /* Tiny buffers mean hundreds of rounds per call, too slow for more ranks than cores. */
    static const char *sizes[] = {"1000", "4096", "65536", "1048576", "16777216"};
    int smallest = client_size <= 2 ? 0 : 2;
    static const char *switches[] = {"enable", "disable", "automatic"};
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", sizes[random_in(common, smallest, 4)]);
    MPI_Info_set(info, "ind_wr_buffer_size", sizes[random_in(common, smallest, 4)]);
    MPI_Info_set(info, "romio_cb_write", switches[random_in(common, 0, 2)]);
    MPI_Info_set(info, "romio_cb_read", switches[random_in(common, 0, 2)]);
    MPI_Info_set(info, "romio_ds_write", switches[random_in(common, 0, 2)]);
    MPI_Info_set(info, "romio_ds_read", switches[random_in(common, 0, 2)]);
    return info;
}

static MPI_File open_with_random_hints(Random *common, int amode) {
    MPI_Info info = random_hints(common);
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("random_views.data"), amode, info, &file));
    MPI_Info_free(&info);
    return file;
}

/* Returns where the next case may begin. */
static MPI_Offset run_case(MPI_File file, int number, MPI_Offset base) {
    Case test = {.number = number, .base = base};
    test.common.state = seed * 1000003u + (uint64_t)number;
    test.own.state = (seed * 1000003u + (uint64_t)number) * 131u + (uint64_t)client_rank + 1;
    test.etype = random_etype(&test.common);
    switch (random_in(&test.common, 0, 2)) {
    case 0: filetype_in_slots(&test); break;
    case 1: filetype_in_etypes(&test); break;
    default: filetype_of_array(&test);
    }
    MPI_Type_commit(&test.filetype->type);
    model_check_pack(test.filetype);
    test.position = random_in(&test.own, 0, 2 * model_bytes(test.filetype) / model_bytes(test.etype));
    OK(MPI_File_set_view(file, test.disp, test.etype->type, test.filetype->type, "native", MPI_INFO_NULL));
    write_case(&test, file);
    if (without(SETTLE_BEFORE_READ)) settle(file, MPI_COMM_WORLD);
    read_case(&test, file);
    long long end = place_in_image(&test);
    MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    model_free(test.filetype);
    model_free(test.etype);
    return (end + GAP) / GAP * GAP;
}

static unsigned quirks_of_library(void) {
#ifdef WILD
    return 0;
#else
    if (library_is("Open MPI")) return SETTLE_BEFORE_READ;
    if (library_is("MPICH Version:\t4.") || library_is("MPICH Version:      4."))
        return NO_EMPTY_BLOCKS | NO_NESTED_DARRAYS | NO_NESTED_STRUCTS | NO_NESTED_RESIZED |
               NO_NESTED_SUBARRAYS;
    return NO_NESTED_STRUCTS;
#endif
}

/* Finds the case that owns an offset of the file. */
static int case_at(const MPI_Offset *bases, int cases, MPI_Offset offset) {
    int number = 0;
    while (number + 1 < cases && bases[number + 1] <= offset) number++;
    return number;
}

static void compare_with_file(const MPI_Offset *bases, int cases, MPI_Offset end) {
    unsigned char *whole = client_rank == 0 ? calloc(1, (size_t)end) : NULL;
    unsigned char *found = client_rank == 0 ? calloc(1, (size_t)end) : NULL;
    MPI_Reduce(image, whole, (int)end, MPI_UNSIGNED_CHAR, MPI_BOR, 0, MPI_COMM_WORLD);
    if (client_rank != 0) return;
    int handle = open(scratch("random_views.data"), O_RDONLY);
    CHECK(handle >= 0, "cannot open the file");
    ssize_t size = pread(handle, found, (size_t)end, 0);
    close(handle);
    CHECK(size == end, "the file has %zd bytes, expected %lld", size, (long long)end);
    for (MPI_Offset i = 0; i < end; i++)
        CHECK(found[i] == whole[i], "%s offset %lld (case %d): expected 0x%02x, got 0x%02x",
              scratch("random_views.data"), (long long)i, case_at(bases, cases, i), whole[i], found[i]);
    printf("CHECKSUM %016llx\n", (unsigned long long)fnv(FNV_START, found, (size_t)end));
    free(whole);
    free(found);
}

int main(int argc, char **argv) {
    const char *from_environment = getenv("PARIO_SEED");
    client_start(&argc, &argv);
    quirks = quirks_of_library();
    seed = strtoull(argc > 1 ? argv[1] : from_environment ? from_environment : "1", NULL, 10);
    int cases = argc > 2 ? atoi(argv[2]) : 500, first = argc > 3 ? atoi(argv[3]) : 0;
    MPI_Offset *bases = calloc((size_t)cases + 1, sizeof *bases), base = 0;
    Random hints = {seed};
    if (client_rank == 0) printf("SEED %llu\n", (unsigned long long)seed);
    fflush(stdout);
    image = calloc(1, IMAGE_MAX);
    remove_first(scratch("random_views.data"));
    MPI_File file = open_with_random_hints(&hints, MPI_MODE_RDWR | MPI_MODE_CREATE);
    /* Holes written past the end of a file have no value in the standard, and ROMIO's sieve puts
       uninitialised memory there. Inside the file they must stay as they are: zero. */
    OK(MPI_File_set_size(file, IMAGE_MAX));
    for (int number = first; number < cases; number++) {
        if (number % 50 == 49) {
            OK(MPI_File_close(&file));
            file = open_with_random_hints(&hints, MPI_MODE_RDWR);
        }
        bases[number] = base;
        base = run_case(file, number, base);
    }
    OK(MPI_File_set_size(file, base));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    compare_with_file(bases, cases, base);
    free(bases);
    free(image);
    return client_end();
}
