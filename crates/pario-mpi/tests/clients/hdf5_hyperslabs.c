/* ranks: 1 2 4 8 */
/* mpis: mpich4 */
/* pario: both */
/* calls: at least 20 */
/* leaves: hdf5_hyperslabs.h5 */
/* link: -I/usr/include/hdf5/mpich -L/usr/lib/x86_64-linux-gnu/hdf5/mpich -lhdf5 */
/* needs: parallel HDF5 */
/* after: h5dump -w 400 hdf5_hyperslabs.h5 */
/* expect: (0,0): 0, 1, 2, 3, 4, 5, */
/* expect: (23,0): 3023000, 3023001, 3023002, */
/* expect: (23,0): 6023000, 6023001, 6023002, */
/*
 * Debian's parallel HDF5 (libhdf5-mpich-dev): collective and independent hyperslabs into contiguous
 * and chunked datasets; the file is closed, opened again and verified, and left for h5dump/h5diff.
 */
#include "client.h"

#include <hdf5.h>

enum { ROWS = 24, COLUMNS = 40 };

#define H5(call) h5_ok(__FILE__, __LINE__, #call, (long long)(call))
static hid_t h5_ok(const char *file, int line, const char *call, long long result) {
    if (result < 0) client_fail(file, line, "%s failed", call);
    return (hid_t)result;
}

static int value(int dataset, int row, int column) { return dataset * 1000000 + row * 1000 + column; }

typedef struct {
    const char *name;
    int chunked, collective, by_column;
} Dataset;

static const Dataset datasets[] = {
    {"contiguous_collective_rows", 0, 1, 0},    {"contiguous_independent_rows", 0, 0, 0},
    {"contiguous_collective_columns", 0, 1, 1}, {"contiguous_independent_columns", 0, 0, 1},
    {"chunked_collective_rows", 1, 1, 0},       {"chunked_independent_rows", 1, 0, 0},
    {"chunked_collective_columns", 1, 1, 1},
};
enum { DATASETS = sizeof datasets / sizeof *datasets };

/* Rank r owns rows (or columns) r, r + size, r + 2 size, ...: strided in both directions. */
static hid_t select_mine(const Dataset *dataset, hid_t space, hsize_t *elements) {
    int total = dataset->by_column ? COLUMNS : ROWS;
    hsize_t mine = (hsize_t)((total - client_rank + client_size - 1) / client_size);
    hsize_t start[2] = {0, 0}, stride[2] = {1, 1}, count[2] = {ROWS, COLUMNS};
    start[dataset->by_column] = (hsize_t)client_rank;
    stride[dataset->by_column] = (hsize_t)client_size;
    count[dataset->by_column] = mine;
    H5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    *elements = count[0] * count[1];
    return H5(H5Screate_simple(1, elements, NULL));
}

static void fill(const Dataset *dataset, int number, int *values) {
    int next = 0;
    for (int row = dataset->by_column ? 0 : client_rank; row < ROWS; row += dataset->by_column ? 1 : client_size)
        for (int column = dataset->by_column ? client_rank : 0; column < COLUMNS;
             column += dataset->by_column ? client_size : 1)
            values[next++] = value(number, row, column);
}

static hid_t transfer(int collective) {
    hid_t properties = H5(H5Pcreate(H5P_DATASET_XFER));
    H5(H5Pset_dxpl_mpio(properties, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
    return properties;
}

static hid_t file_access(void) {
    hid_t properties = H5(H5Pcreate(H5P_FILE_ACCESS));
    H5(H5Pset_fapl_mpio(properties, MPI_COMM_WORLD, MPI_INFO_NULL));
    return properties;
}

static void write_dataset(hid_t file, int number) {
    static int values[ROWS * COLUMNS];
    const Dataset *dataset = &datasets[number];
    hsize_t size[2] = {ROWS, COLUMNS}, chunk[2] = {7, 9}, elements;
    hid_t creation = H5(H5Pcreate(H5P_DATASET_CREATE)), space = H5(H5Screate_simple(2, size, NULL));
    if (dataset->chunked) H5(H5Pset_chunk(creation, 2, chunk));
    hid_t set = H5(H5Dcreate2(file, dataset->name, H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    hid_t memory = select_mine(dataset, space, &elements), how = transfer(dataset->collective);
    fill(dataset, number, values);
    H5(H5Dwrite(set, H5T_NATIVE_INT, memory, space, how, values));
    H5(H5Pclose(how));
    H5(H5Sclose(memory));
    H5(H5Sclose(space));
    H5(H5Pclose(creation));
    H5(H5Dclose(set));
}

/* Every rank reads everything, collectively for even datasets. */
static void verify_dataset(hid_t file, int number) {
    static int values[ROWS][COLUMNS];
    hid_t set = H5(H5Dopen2(file, datasets[number].name, H5P_DEFAULT)), how = transfer(number % 2 == 0);
    memset(values, 0xff, sizeof values);
    H5(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, how, values));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            CHECK(values[row][column] == value(number, row, column),
                  "%s [%d][%d]: expected %d, got %d", datasets[number].name, row, column,
                  value(number, row, column), values[row][column]);
    H5(H5Pclose(how));
    H5(H5Dclose(set));
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    const char *path = scratch("hdf5_hyperslabs.h5");
    hid_t access = file_access();
    hid_t file = H5(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    for (int i = 0; i < DATASETS; i++) write_dataset(file, i);
    H5(H5Fclose(file));
    file = H5(H5Fopen(path, H5F_ACC_RDONLY, access));
    for (int i = 0; i < DATASETS; i++) verify_dataset(file, i);
    H5(H5Fclose(file));
    H5(H5Pclose(access));
    return client_end();
}
