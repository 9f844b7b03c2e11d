/*
 * Random datatypes with a naive model beside each: the list of byte pieces in typemap order.
 *
 * The model is the oracle of random_views.c: built by loops as the standard words them, without
 * asking MPI anything but the bounds (structs are padded as the library likes).
 *
 * Every type keeps its data inside [lb, lb + extent), so tiles never overlap. On the file side
 * displacements are also non-negative, increasing, and multiples of `unit`.
 */
#ifndef RANDOM_TYPES_H
#define RANDOM_TYPES_H

#include "client.h"

/*
 * What a library's own MPI-IO gets wrong (found by these tests; see random_views.c), to be left out
 * where its files are compared with pario's.
 */
enum Quirk {
    NO_EMPTY_BLOCKS = 1,
    NO_NESTED_DARRAYS = 2,
    NO_NESTED_STRUCTS = 4,
    NO_NESTED_RESIZED = 8,
    NO_NESTED_SUBARRAYS = 16,
    SETTLE_BEFORE_READ = 32,
};
static unsigned quirks;

static int without(enum Quirk quirk) { return (quirks & quirk) != 0; }

enum { PIECES_MAX = 600, DIMENSIONS_MAX = 3 };

typedef struct { MPI_Aint offset; int bytes; } Piece;

typedef struct {
    MPI_Datatype type;
    MPI_Aint lb, extent;
    int count;
    Piece pieces[PIECES_MAX];
} Model;

typedef struct {
    Random *random;
    int file_side;
    MPI_Aint unit;           /* displacements in bytes are multiples of it */
    const Model *leaf;       /* what everything is made of, or NULL: any predefined type */
} Maker;

static void model_add(Model *model, const Model *child, MPI_Aint at) {
    CHECK(model->count + child->count <= PIECES_MAX, "a random type grew too large");
    for (int i = 0; i < child->count; i++) {
        model->pieces[model->count] = child->pieces[i];
        model->pieces[model->count++].offset += at;
    }
}

static void model_add_block(Model *model, const Model *child, MPI_Aint at, int length) {
    for (int i = 0; i < length; i++) model_add(model, child, at + i * child->extent);
}

static int model_bytes(const Model *model) {
    int bytes = 0;
    for (int i = 0; i < model->count; i++) bytes += model->pieces[i].bytes;
    return bytes;
}

static MPI_Aint model_end(const Model *model) {
    MPI_Aint end = 0;
    for (int i = 0; i < model->count; i++)
        if (model->pieces[i].offset + model->pieces[i].bytes > end)
            end = model->pieces[i].offset + model->pieces[i].bytes;
    return end;
}

/* Takes the bounds from MPI and checks what the model can check: size and true bounds. */
static void model_close(Model *model) {
    int size = -1;
    MPI_Aint true_lb = 0, true_extent = 0, first = 0, end = 0;
    MPI_Type_get_extent(model->type, &model->lb, &model->extent);
    MPI_Type_get_true_extent(model->type, &true_lb, &true_extent);
    MPI_Type_size(model->type, &size);
    for (int i = 0; i < model->count; i++) {
        const Piece *piece = &model->pieces[i];
        if (i == 0 || piece->offset < first) first = piece->offset;
        if (i == 0 || piece->offset + piece->bytes > end) end = piece->offset + piece->bytes;
    }
    CHECK(size == model_bytes(model), "model has %d bytes, MPI %d", model_bytes(model), size);
    CHECK(size == 0 || (true_lb == first && true_lb + true_extent == end),
          "model spans %ld..%ld, MPI %ld..%ld", (long)first, (long)end, (long)true_lb,
          (long)(true_lb + true_extent));
    CHECK(size == 0 || (model->lb <= first && end <= model->lb + model->extent),
          "data %ld..%ld outside of the bounds %ld..%ld", (long)first, (long)end, (long)model->lb,
          (long)(model->lb + model->extent));
}

/* The library's own packing must see the same bytes in the same order, or the model is wrong. */
static void model_check_pack(const Model *model) {
    MPI_Aint first = 0, end = model_end(model);
    int bytes = model_bytes(model), position = 0, index = 0;
    for (int i = 0; i < model->count; i++)
        if (model->pieces[i].offset < first) first = model->pieces[i].offset;
    unsigned char *memory = malloc((size_t)(end - first) + 1), *packed = malloc((size_t)bytes + 1);
    for (MPI_Aint i = 0; i < end - first; i++) memory[i] = (unsigned char)(i * 31 + (i >> 8) * 7);
    MPI_Pack(memory - first, 1, model->type, packed, bytes, &position, MPI_COMM_SELF);
    for (int i = 0; i < model->count; i++)
        for (int b = 0; b < model->pieces[i].bytes; b++, index++)
            CHECK(packed[index] == memory[model->pieces[i].offset - first + b],
                  "the model and MPI_Pack differ at byte %d of %d", index, bytes);
    free(memory);
    free(packed);
}

static void model_free(Model *model) {
    int integers, addresses, datatypes, combiner;
    MPI_Type_get_envelope(model->type, &integers, &addresses, &datatypes, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&model->type);
    free(model);
}

static Model *model_new(void) {
    Model *model = calloc(1, sizeof *model);
    CHECK(model != NULL, "no memory");
    return model;
}

static Model *model_named(MPI_Datatype type) {
    Model *model = model_new();
    int size;
    MPI_Type_size(type, &size);
    model->type = type;
    model->count = 1;
    model->pieces[0].bytes = size;
    model_close(model);
    return model;
}

static Model *model_leaf(Maker *maker) {
    MPI_Datatype named[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_LONG_LONG,
                            MPI_FLOAT, MPI_UNSIGNED};
    if (!maker->leaf) return model_named(named[random_in(maker->random, 0, 7)]);
    Model *leaf = model_new();
    *leaf = *maker->leaf;
    MPI_Type_dup(maker->leaf->type, &leaf->type);
    return leaf;
}

/* Rounds up to the unit of displacements. */
static MPI_Aint to_unit(const Maker *maker, MPI_Aint bytes) {
    return (bytes + maker->unit - 1) / maker->unit * maker->unit;
}

/* ---- one function per constructor; each returns a model that owns its type ---- */

static Model *make_contiguous(Maker *maker, const Model *child) {
    Model *model = model_new();
    int count = random_in(maker->random, 1, 4);
    MPI_Type_contiguous(count, child->type, &model->type);
    model_add_block(model, child, 0, count);
    return model;
}

static Model *make_vector(Maker *maker, const Model *child) {
    Model *model = model_new();
    int count = random_in(maker->random, 1, 4), length = random_in(maker->random, 1, 3);
    int stride = length + random_in(maker->random, 0, 3);
    /* Never just -length: Open MPI 5.0 takes that for a contiguous type that goes up. */
    if (!maker->file_side && random_in(maker->random, 0, 2) == 0)
        stride = -stride - 1;
    MPI_Type_vector(count, length, stride, child->type, &model->type);
    for (int i = 0; i < count; i++) model_add_block(model, child, i * stride * child->extent, length);
    return model;
}

static Model *make_hvector(Maker *maker, const Model *child) {
    Model *model = model_new();
    int count = random_in(maker->random, 1, 4), length = random_in(maker->random, 1, 3);
    MPI_Aint stride = to_unit(maker, length * child->extent) + random_in(maker->random, 0, 3) * maker->unit;
    MPI_Type_create_hvector(count, length, stride, child->type, &model->type);
    for (int i = 0; i < count; i++) model_add_block(model, child, i * stride, length);
    return model;
}

/* Lengths and growing displacements of 1 to 4 blocks; in memory the order is shuffled. */
static int random_blocks(Maker *maker, int lengths[4], int displacements[4], int fixed_length) {
    int count = random_in(maker->random, 1, 4), at = random_in(maker->random, 0, 2);
    for (int i = 0; i < count; i++) {
        lengths[i] = fixed_length ? fixed_length : random_in(maker->random, i == 0 || without(NO_EMPTY_BLOCKS) ? 1 : 0, 3);
        displacements[i] = at;
        at += lengths[i] + random_in(maker->random, 0, 3);
    }
    if (maker->file_side) return count;
    for (int i = count - 1; i > 0; i--) {
        int j = random_in(maker->random, 0, i);
        int length = lengths[i], displacement = displacements[i];
        lengths[i] = lengths[j], displacements[i] = displacements[j];
        lengths[j] = length, displacements[j] = displacement;
    }
    return count;
}

static Model *make_indexed(Maker *maker, const Model *child) {
    Model *model = model_new();
    int lengths[4], displacements[4];
    int count = random_blocks(maker, lengths, displacements, 0);
    MPI_Type_indexed(count, lengths, displacements, child->type, &model->type);
    for (int i = 0; i < count; i++)
        model_add_block(model, child, displacements[i] * child->extent, lengths[i]);
    return model;
}

static Model *make_hindexed(Maker *maker, const Model *child) {
    Model *model = model_new();
    int lengths[4], displacements[4];
    MPI_Aint bytes[4], step = to_unit(maker, child->extent);
    int count = random_blocks(maker, lengths, displacements, 0);
    for (int i = 0; i < count; i++) bytes[i] = displacements[i] * step;
    MPI_Type_create_hindexed(count, lengths, bytes, child->type, &model->type);
    for (int i = 0; i < count; i++) model_add_block(model, child, bytes[i], lengths[i]);
    return model;
}

static Model *make_indexed_block(Maker *maker, const Model *child) {
    Model *model = model_new();
    int lengths[4], displacements[4], length = random_in(maker->random, 1, 3);
    int count = random_blocks(maker, lengths, displacements, length);
    MPI_Type_create_indexed_block(count, length, displacements, child->type, &model->type);
    for (int i = 0; i < count; i++)
        model_add_block(model, child, displacements[i] * child->extent, length);
    return model;
}

static Model *make_hindexed_block(Maker *maker, const Model *child) {
    Model *model = model_new();
    int lengths[4], displacements[4], length = random_in(maker->random, 1, 3);
    MPI_Aint bytes[4], step = to_unit(maker, child->extent);
    int count = random_blocks(maker, lengths, displacements, length);
    for (int i = 0; i < count; i++) bytes[i] = displacements[i] * step;
    MPI_Type_create_hindexed_block(count, length, bytes, child->type, &model->type);
    for (int i = 0; i < count; i++) model_add_block(model, child, bytes[i], length);
    return model;
}

/*
 * Explicit bounds of one member (of a resized type) are the bounds of the whole struct, even if
 * another member lies outside (MPI-4.1, 5.1: lb_marker and ub_marker); they are set anew then.
 */
static void cover_all_members(const Maker *maker, Model *model) {
    MPI_Aint lb, extent, true_lb, true_extent;
    MPI_Datatype bare = model->type;
    MPI_Type_get_extent(bare, &lb, &extent);
    MPI_Type_get_true_extent(bare, &true_lb, &true_extent);
    if (lb <= true_lb && true_lb + true_extent <= lb + extent) return;
    MPI_Aint end = to_unit(maker, true_lb + true_extent);
    if (true_lb < lb) lb = true_lb;
    MPI_Type_create_resized(bare, lb, end - lb, &model->type);
    MPI_Type_free(&bare);
}

/* Two members: the child, and a leaf behind it. */
static Model *make_struct(Maker *maker, const Model *child) {
    Model *model = model_new(), *leaf = model_leaf(maker);
    int lengths[2] = {random_in(maker->random, 1, 2), random_in(maker->random, 1, 3)};
    MPI_Aint displacements[2] = {random_in(maker->random, 0, 2) * maker->unit, 0};
    MPI_Datatype types[2] = {child->type, leaf->type};
    displacements[1] = to_unit(maker, displacements[0] + child->lb + lengths[0] * child->extent) +
                       random_in(maker->random, 0, 2) * maker->unit;
    MPI_Type_create_struct(2, lengths, displacements, types, &model->type);
    model_add_block(model, child, displacements[0], lengths[0]);
    model_add_block(model, leaf, displacements[1], lengths[1]);
    model_free(leaf);
    cover_all_members(maker, model);
    return model;
}

static Model *make_resized(Maker *maker, const Model *child) {
    Model *model = model_new();
    MPI_Aint lb = child->lb, end = child->lb + child->extent;
    end += random_in(maker->random, 0, 3) * maker->unit;
    if (!maker->file_side) lb -= random_in(maker->random, 0, 2) * maker->unit;
    MPI_Type_create_resized(child->type, lb, end - lb, &model->type);
    model_add(model, child, 0);
    return model;
}

static Model *make_dup(Maker *maker, const Model *child) {
    Model *model = model_new();
    (void)maker;
    MPI_Type_dup(child->type, &model->type);
    model_add(model, child, 0);
    return model;
}

/* ---- arrays ---- */

/* The chosen indices of each dimension, in increasing order. */
typedef struct {
    int dimensions, order;
    int sizes[DIMENSIONS_MAX];
    int chosen[DIMENSIONS_MAX];
    int index[DIMENSIONS_MAX][64];
} Selection;

/* Adds every chosen element; dimension 0 varies slowest in C order, fastest in Fortran order. */
static void model_add_selection(Model *model, const Model *child, const Selection *selection) {
    int total = 1;
    for (int d = 0; d < selection->dimensions; d++) total *= selection->chosen[d];
    for (int n = 0; n < total; n++) {
        MPI_Aint at = 0, weight = 1;
        int rest = n;
        for (int k = 0; k < selection->dimensions; k++) {
            int d = selection->order == MPI_ORDER_C ? selection->dimensions - 1 - k : k;
            at += weight * selection->index[d][rest % selection->chosen[d]];
            rest /= selection->chosen[d];
            weight *= selection->sizes[d];
        }
        model_add(model, child, at * child->extent);
    }
}

static Model *make_subarray(Maker *maker, const Model *child) {
    Model *model = model_new();
    Selection selection;
    int starts[DIMENSIONS_MAX];
    selection.dimensions = random_in(maker->random, 1, child->count > 8 ? 2 : 3);
    selection.order = random_in(maker->random, 0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    for (int d = 0; d < selection.dimensions; d++) {
        selection.sizes[d] = random_in(maker->random, 1, 4);
        selection.chosen[d] = random_in(maker->random, 1, selection.sizes[d]);
        starts[d] = random_in(maker->random, 0, selection.sizes[d] - selection.chosen[d]);
        for (int i = 0; i < selection.chosen[d]; i++) selection.index[d][i] = starts[d] + i;
    }
    MPI_Type_create_subarray(selection.dimensions, selection.sizes, selection.chosen, starts,
                             selection.order, child->type, &model->type);
    model_add_selection(model, child, &selection);
    return model;
}

typedef struct {
    int dimensions, order;
    int sizes[DIMENSIONS_MAX], kinds[DIMENSIONS_MAX], arguments[DIMENSIONS_MAX], grid[DIMENSIONS_MAX];
} Distribution;

/* The indices of one dimension that belong to process `coordinate` (MPI-4.1, 5.1.4). */
static int owned_indices(const Distribution *distribution, int d, int coordinate, int *index) {
    int size = distribution->sizes[d], processes = distribution->grid[d], count = 0, block;
    if (distribution->kinds[d] == MPI_DISTRIBUTE_NONE) block = size;
    else if (distribution->arguments[d] != MPI_DISTRIBUTE_DFLT_DARG) block = distribution->arguments[d];
    else if (distribution->kinds[d] == MPI_DISTRIBUTE_BLOCK) block = (size + processes - 1) / processes;
    else block = 1;
    for (int i = 0; i < size; i++)
        if (i / block % processes == coordinate) index[count++] = i;
    return count;
}

static Model *make_darray_of(const Distribution *distribution, int processes, int rank, const Model *child) {
    Model *model = model_new();
    Selection selection;
    int rest = rank;
    selection.dimensions = distribution->dimensions;
    selection.order = distribution->order;
    for (int d = distribution->dimensions - 1; d >= 0; d--) {
        selection.sizes[d] = distribution->sizes[d];
        selection.chosen[d] = owned_indices(distribution, d, rest % distribution->grid[d], selection.index[d]);
        rest /= distribution->grid[d];
    }
    MPI_Type_create_darray(processes, rank, distribution->dimensions, distribution->sizes,
                           distribution->kinds, distribution->arguments, distribution->grid,
                           distribution->order, child->type, &model->type);
    model_add_selection(model, child, &selection);
    return model;
}

/* Sizes and kinds for a given grid, such that every process owns something. */
static void random_distribution(Random *random, Distribution *distribution) {
    distribution->order = random_in(random, 0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    for (int d = 0; d < distribution->dimensions; d++) {
        int processes = distribution->grid[d];
        int kind = random_in(random, 0, processes == 1 ? 2 : 1);
        distribution->arguments[d] = MPI_DISTRIBUTE_DFLT_DARG;
        distribution->sizes[d] = processes * random_in(random, 1, 3);
        distribution->kinds[d] = kind == 0   ? MPI_DISTRIBUTE_BLOCK
                                 : kind == 1 ? MPI_DISTRIBUTE_CYCLIC
                                             : MPI_DISTRIBUTE_NONE;
        if (kind == 1 && random_in(random, 0, 1)) {
            distribution->arguments[d] = random_in(random, 1, 2);
            distribution->sizes[d] = processes * distribution->arguments[d] + random_in(random, 0, 3);
        }
    }
}

static Model *make_darray(Maker *maker, const Model *child) {
    Distribution distribution;
    int processes = 1;
    distribution.dimensions = random_in(maker->random, 1, 2);
    for (int d = 0; d < distribution.dimensions; d++)
        processes *= distribution.grid[d] = random_in(maker->random, 1, 2);
    random_distribution(maker->random, &distribution);
    return make_darray_of(&distribution, processes, random_in(maker->random, 0, processes - 1), child);
}

/* ---- a random type of some depth ---- */

typedef Model *(*Constructor)(Maker *, const Model *);

static const Constructor constructors[] = {
    make_contiguous, make_vector, make_hvector, make_indexed, make_hindexed, make_indexed_block,
    make_hindexed_block, make_struct, make_resized, make_dup, make_subarray, make_darray,
};

static Constructor random_constructor(Random *random, const Model *child) {
    int last = (int)(sizeof constructors / sizeof *constructors) - 1;
    Constructor chosen = constructors[random_in(random, 0, last)];
    if ((chosen == make_struct && without(NO_NESTED_STRUCTS)) ||
        (chosen == make_resized && without(NO_NESTED_RESIZED)) ||
        (chosen == make_subarray && without(NO_NESTED_SUBARRAYS)) ||
        (chosen == make_darray && without(NO_NESTED_DARRAYS)))
        return make_contiguous;
    /* Arrays have bounds of their own, from 0: a child that starts later would stick out of them. */
    if ((chosen == make_subarray || chosen == make_darray) && child->lb != 0) return make_contiguous;
    return chosen;
}

static Model *random_model(Maker *maker, int depth) {
    Model *model = model_leaf(maker);
    for (int level = 0; level < depth && model->count <= 24; level++) {
        Model *parent = random_constructor(maker->random, model)(maker, model);
        model_free(model);
        model_close(parent);
        model = parent;
    }
    return model;
}

#endif
