/*
 * Which bytes of a file each rank has: once as runs, which buffers are filled and files are checked with,
 * and once as a view, which MPI-IO is measured with. The two share no code, so that a wrong datatype is
 * found.
 *
 * A workload covers its file without gaps or overlap. Data lies in memory in the order of the file.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs of `len` bytes at base + i * outer_stride + j * inner_stride. */
typedef struct {
    int64_t base, outer, outer_stride, inner, inner_stride, len;
} Box;

enum { BOXES_MAX = 64 };

typedef struct {
    Box boxes[BOXES_MAX];
    int box_count;
    /* Elements at these numbers instead of boxes. */
    int *numbers;
    int64_t number_count, element_bytes;
    /* Of this rank, of all; transfers that move equal parts of a rank's bytes one after the other. */
    int64_t bytes, file_bytes;
    int transfers;
    /* The view. */
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
} Pattern;

/* What the arguments ask for. */
typedef struct {
    char workload[32];
    int64_t bytes, block, edge, elements, x, y, rest, seed;
    int transfers, level, calls, probe;
    double budget;
} Job;

typedef void Visitor(void *context, int64_t offset, int64_t len);

static void visit_runs(const Pattern *pattern, Visitor *visit, void *context) {
    for (int64_t i = 0; i < pattern->number_count; i++)
        visit(context, pattern->numbers[i] * pattern->element_bytes, pattern->element_bytes);
    for (int b = 0; b < pattern->box_count; b++) {
        const Box *box = &pattern->boxes[b];
        for (int64_t i = 0; i < box->outer; i++)
            for (int64_t j = 0; j < box->inner; j++)
                visit(context, box->base + i * box->outer_stride + j * box->inner_stride, box->len);
    }
}

static int64_t run_count(const Pattern *pattern) {
    int64_t count = pattern->number_count;
    for (int b = 0; b < pattern->box_count; b++) count += pattern->boxes[b].outer * pattern->boxes[b].inner;
    return count;
}

static void refuse(const char *reason) {
    fprintf(stderr, "peers: %s\n", reason);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static int64_t ceiling(int64_t number, int64_t divisor) { return (number + divisor - 1) / divisor; }

static int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }

static void add_box(Pattern *pattern, Box box) {
    if (pattern->box_count == BOXES_MAX) refuse("too many boxes");
    pattern->boxes[pattern->box_count++] = box;
    pattern->bytes += box.outer * box.inner * box.len;
}

/* A part of a three-dimensional array in the order of C, as runs and as a datatype. */
static MPI_Datatype part_of_array(Pattern *pattern, const int *sizes, const int *parts, const int *starts,
                                  MPI_Datatype element, int64_t element_bytes) {
    MPI_Datatype type;
    int64_t row = sizes[2] * element_bytes, plane = sizes[1] * row;
    add_box(pattern, (Box){starts[0] * plane + starts[1] * row + starts[2] * element_bytes, parts[0], plane,
                           parts[1], row, parts[2] * element_bytes});
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, element, &type);
    return type;
}

/* Elements are dealt out in blocks. With several transfers, the filetype is that of one block. */
static void block_cyclic(Pattern *pattern, const Job *job, int rank, int size) {
    int64_t rounds = job->bytes / (job->block * size), per_transfer = rounds / job->transfers;
    int ints = (int)(job->block / 4);
    if (per_transfer == 0 || job->block % 4) refuse("block-cyclic: a rank needs at least one block of ints");
    rounds = per_transfer * job->transfers;
    pattern->file_bytes = rounds * job->block * size;
    add_box(pattern, (Box){rank * job->block, 1, 0, rounds, job->block * size, job->block});
    pattern->etype = MPI_INT;
    pattern->displacement = rank * job->block;
    if (job->transfers == 1) {
        MPI_Type_vector((int)rounds, ints, ints * size, MPI_INT, &pattern->filetype);
    } else {
        MPI_Datatype block;
        MPI_Type_contiguous(ints, MPI_INT, &block);
        MPI_Type_create_resized(block, 0, job->block * size, &pattern->filetype);
        MPI_Type_free(&block);
    }
}

/* A cube of ints, distributed (block, block, block). */
static void dist3d(Pattern *pattern, const Job *job, int rank, int size) {
    int edge = (int)job->edge, grid[3] = {0, 0, 0}, sizes[3], parts[3], starts[3];
    MPI_Dims_create(size, 3, grid);
    int coordinates[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    for (int d = 0; d < 3; d++) {
        int share = (int)ceiling(edge, grid[d]);
        sizes[d] = edge;
        starts[d] = coordinates[d] * share;
        parts[d] = (int)smaller(share, edge - starts[d]);
        if (parts[d] <= 0) refuse("dist3d: a rank has nothing");
    }
    pattern->file_bytes = 4 * job->edge * job->edge * job->edge;
    pattern->etype = MPI_INT;
    pattern->filetype = part_of_array(pattern, sizes, parts, starts, MPI_INT, 4);
}

/* BT of the NAS benchmarks: a cube of 5 doubles, in cells on a diagonal of the cube for each rank. */
static void btio(Pattern *pattern, const Job *job, int rank, int size) {
    int cells = 1, edge = (int)job->edge;
    while (cells * cells < size) cells++;
    if (cells * cells != size) refuse("btio: the number of ranks is not a square");
    MPI_Datatype element, types[BOXES_MAX];
    MPI_Aint places[BOXES_MAX];
    int lens[BOXES_MAX], sizes[3] = {edge, edge, edge};
    MPI_Type_contiguous(5, MPI_DOUBLE, &element);
    for (int cell = 0; cell < cells; cell++) {
        int place[3] = {cell, (rank / cells + cells - cell) % cells, (rank % cells + cell) % cells};
        int parts[3], starts[3];
        for (int d = 0; d < 3; d++) {
            int rest = edge % cells, base = edge / cells;
            parts[d] = base + (place[d] < rest);
            starts[d] = place[d] * base + (int)smaller(place[d], rest);
        }
        types[cell] = part_of_array(pattern, sizes, parts, starts, element, 40);
        places[cell] = 0;
        lens[cell] = 1;
    }
    MPI_Type_create_struct(cells, lens, places, types, &pattern->filetype);
    for (int cell = 0; cell < cells; cell++) MPI_Type_free(&types[cell]);
    MPI_Type_free(&element);
    pattern->file_bytes = 40 * job->edge * job->edge * job->edge;
    pattern->etype = MPI_DOUBLE;
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Elements of an unstructured mesh: each belongs to a rank by chance, and each rank has as many. */
static void unstruc(Pattern *pattern, const Job *job, int rank, int size) {
    int64_t count = job->elements / size * size;
    uint64_t state = (uint64_t)job->seed;
    short *owners = malloc(count * sizeof *owners);
    pattern->numbers = malloc(count / size * sizeof(int));
    if (!owners || !pattern->numbers || count == 0) refuse("unstruc: too many or too few elements");
    for (int64_t i = 0; i < count; i++) owners[i] = (short)(i % size);
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)(next_random(&state) % (uint64_t)(i + 1));
        short owner = owners[i];
        owners[i] = owners[j];
        owners[j] = owner;
    }
    for (int64_t i = 0; i < count; i++)
        if (owners[i] == rank) pattern->numbers[pattern->number_count++] = (int)i;
    free(owners);
    pattern->element_bytes = 64;
    pattern->bytes = pattern->number_count * 64;
    pattern->file_bytes = count * 64;
    MPI_Type_contiguous(8, MPI_DOUBLE, &pattern->etype);
    MPI_Type_create_indexed_block((int)pattern->number_count, 1, pattern->numbers, pattern->etype,
                                  &pattern->filetype);
}

/* The arrays of STEM-II: SL(x, y, rest) of floats in the order of Fortran, y in blocks over the ranks. */
static void stem2(Pattern *pattern, const Job *job, int rank, int size) {
    int64_t share = ceiling(job->y, size), start = smaller(rank * share, job->y);
    int own = (int)smaller(share, job->y - start);
    int sizes[3] = {(int)job->rest, (int)job->y, (int)job->x};
    int parts[3] = {(int)job->rest, own, (int)job->x}, starts[3] = {0, (int)start, 0};
    pattern->file_bytes = 4 * job->x * job->y * job->rest;
    pattern->etype = MPI_FLOAT;
    if (own > 0) {
        /* The rows of a rank are neighbours: one run for each plane. */
        pattern->filetype = part_of_array(pattern, sizes, parts, starts, MPI_FLOAT, 4);
        Box *box = &pattern->boxes[0];
        *box = (Box){box->base, box->outer, box->outer_stride, 1, 0, box->inner * box->len};
    } else {
        MPI_Type_contiguous(1, MPI_FLOAT, &pattern->filetype);
    }
}

/* One contiguous part for each rank, in one or more transfers. */
static void contiguous(Pattern *pattern, const Job *job, int rank, int size) {
    int64_t len = job->bytes / size / job->transfers / 4 * 4;
    if (len == 0) refuse("contiguous: too few bytes");
    int64_t share = len * job->transfers;
    pattern->file_bytes = share * size;
    add_box(pattern, (Box){rank * share, 1, 0, job->transfers, len, len});
    pattern->displacement = rank * share;
    pattern->etype = MPI_INT;
    MPI_Type_contiguous((int)(share / 4), MPI_INT, &pattern->filetype);
}

static const struct {
    const char *name;
    void (*make)(Pattern *, const Job *, int rank, int size);
} MAKERS[] = {{"block-cyclic", block_cyclic}, {"small", block_cyclic}, {"step", block_cyclic},
              {"dist3d", dist3d},             {"btio", btio},          {"unstruc", unstruc},
              {"stem2", stem2},               {"contiguous", contiguous}};

static Pattern make_pattern(const Job *job, int rank, int size) {
    Pattern pattern;
    memset(&pattern, 0, sizeof pattern);
    pattern.transfers = job->transfers;
    for (size_t i = 0; i < sizeof MAKERS / sizeof *MAKERS; i++)
        if (!strcmp(job->workload, MAKERS[i].name)) {
            MAKERS[i].make(&pattern, job, rank, size);
            MPI_Type_commit(&pattern.filetype);
            if (pattern.etype != MPI_INT && pattern.etype != MPI_FLOAT && pattern.etype != MPI_DOUBLE)
                MPI_Type_commit(&pattern.etype);
            return pattern;
        }
    refuse("there is no such workload");
    return pattern;
}

/* The same bytes as one contiguous part for each rank: the order of the file is lost. */
static Pattern make_block_pattern(const Pattern *like) {
    Pattern pattern;
    memset(&pattern, 0, sizeof pattern);
    int64_t start = 0;
    pattern.transfers = like->transfers;
    pattern.file_bytes = like->file_bytes;
    MPI_Exscan(&like->bytes, &start, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    add_box(&pattern, (Box){rank ? start : 0, 1, 0, 1, 0, like->bytes});
    return pattern;
}

static void free_pattern(Pattern *pattern) {
    free(pattern->numbers);
    if (pattern->etype != MPI_INT && pattern->etype != MPI_FLOAT && pattern->etype != MPI_DOUBLE)
        MPI_Type_free(&pattern->etype);
    MPI_Type_free(&pattern->filetype);
}

/* A problem of about so small a part: the cube of `factor`. */
static Job shrink(const Job *job, int factor) {
    Job small = *job;
    int part = factor * factor * factor;
    if (job->transfers > 1) {
        /* As large, but fewer. */
        small.transfers = (int)ceiling(job->transfers, part);
        small.bytes = job->bytes / job->transfers * small.transfers;
        return small;
    }
    small.bytes /= part;
    small.elements /= part;
    small.rest = ceiling(job->rest, part);
    small.edge = ceiling(job->edge, factor);
    return small;
}
