/* ranks: 1 2 4 8 */
/* mpis: openmpi4 */
/* pario: both */
/* calls: at least 20 */
/* leaves: pnetcdf_blocks.nc */
/* link: -lpnetcdf */
/* needs: PnetCDF */
/* after: ncvalidator pnetcdf_blocks.nc */
/* after: ncmpidump pnetcdf_blocks.nc */
/* expect: 2050000, 2050001, 2050002, */
/* expect: 4020000, 4020001, 4020002, */
/*
 * Debian's PnetCDF 1.12.3 (libpnetcdf-dev), built on Debian's Open MPI 4.1.4 (mpicc.openmpi; it needs
 * libmpi_cxx, which Open MPI 5 lacks): blocking collective, independent and non-blocking writes; the
 * file is closed, opened again and verified, and left for ncmpidump and ncvalidator.
 */
#include "client.h"

#include <pnetcdf.h>

enum { ROWS = 6, WIDTH = 10, RECORDS = 3 };

#define NC(call) nc_ok(__FILE__, __LINE__, #call, (call))
static void nc_ok(const char *file, int line, const char *call, int result) {
    if (result != NC_NOERR) client_fail(file, line, "%s: %s", call, ncmpi_strerror(result));
}

static int value(int variable, int row, int column) { return variable * 1000000 + row * 10000 + column; }

enum { COLLECTIVE, INDEPENDENT, NONBLOCKING, STRIDED, RECORD, VARIABLES };
static const char *names[VARIABLES] = {"collective", "independent", "nonblocking", "strided", "record"};
static int ids[VARIABLES];

static void define(int file) {
    int dimensions[2], record[2];
    NC(ncmpi_def_dim(file, "row", ROWS, &dimensions[0]));
    NC(ncmpi_def_dim(file, "column", WIDTH * client_size, &dimensions[1]));
    NC(ncmpi_def_dim(file, "time", NC_UNLIMITED, &record[0]));
    record[1] = dimensions[1];
    for (int i = 0; i < VARIABLES; i++)
        NC(ncmpi_def_var(file, names[i], NC_INT, 2, i == RECORD ? record : dimensions, &ids[i]));
    NC(ncmpi_put_att_text(file, NC_GLOBAL, "title", 5, "pario"));
    NC(ncmpi_enddef(file));
}

/* Rank r owns columns r * WIDTH and on, or (strided) every size-th column from r. */
static int column_of(int variable, int index) {
    return variable == STRIDED ? client_rank + index * client_size : client_rank * WIDTH + index;
}

static void fill(int variable, int rows, int values[ROWS][WIDTH]) {
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < WIDTH; i++) values[row][i] = value(variable, row, column_of(variable, i));
}

static void write_blocking(int file, int values[ROWS][WIDTH]) {
    MPI_Offset start[2] = {0, (MPI_Offset)client_rank * WIDTH}, count[2] = {ROWS, WIDTH};
    MPI_Offset first[2] = {0, client_rank}, stride[2] = {1, client_size};
    fill(COLLECTIVE, ROWS, values);
    NC(ncmpi_put_vara_int_all(file, ids[COLLECTIVE], start, count, &values[0][0]));
    fill(STRIDED, ROWS, values);
    NC(ncmpi_put_vars_int_all(file, ids[STRIDED], first, count, stride, &values[0][0]));
    count[0] = RECORDS;
    fill(RECORD, RECORDS, values);
    NC(ncmpi_put_vara_int_all(file, ids[RECORD], start, count, &values[0][0]));
    count[0] = ROWS;
    fill(INDEPENDENT, ROWS, values);
    NC(ncmpi_begin_indep_data(file));
    NC(ncmpi_put_vara_int(file, ids[INDEPENDENT], start, count, &values[0][0]));
    NC(ncmpi_end_indep_data(file));
}

static void write_nonblocking(int file, int values[ROWS][WIDTH]) {
    int requests[ROWS], statuses[ROWS];
    fill(NONBLOCKING, ROWS, values);
    for (int row = 0; row < ROWS; row++) {
        MPI_Offset start[2] = {row, (MPI_Offset)client_rank * WIDTH}, count[2] = {1, WIDTH};
        NC(ncmpi_iput_vara_int(file, ids[NONBLOCKING], start, count, values[row], &requests[row]));
    }
    NC(ncmpi_wait_all(file, ROWS, requests, statuses));
    for (int row = 0; row < ROWS; row++) NC(statuses[row]);
}

/* Everything is read by every rank: by blocking calls, or by iget and wait_all. */
static void verify(int file, int variable) {
    int rows = variable == RECORD ? RECORDS : ROWS, columns = WIDTH * client_size, id, request, status;
    int *values = calloc((size_t)(rows * columns), sizeof *values);
    MPI_Offset start[2] = {0, 0}, count[2] = {rows, columns};
    NC(ncmpi_inq_varid(file, names[variable], &id));
    if (variable % 2 == 0) {
        NC(ncmpi_get_vara_int_all(file, id, start, count, values));
    } else {
        NC(ncmpi_iget_vara_int(file, id, start, count, values, &request));
        NC(ncmpi_wait_all(file, 1, &request, &status));
        NC(status);
    }
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            CHECK(values[row * columns + column] == value(variable, row, column),
                  "%s [%d][%d]: expected %d, got %d", names[variable], row, column,
                  value(variable, row, column), values[row * columns + column]);
    free(values);
}

int main(int argc, char **argv) {
    int file, values[ROWS][WIDTH];
    client_start(&argc, &argv);
    const char *path = scratch("pnetcdf_blocks.nc");
    NC(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    define(file);
    write_blocking(file, values);
    write_nonblocking(file, values);
    NC(ncmpi_close(file));
    NC(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file));
    for (int i = 0; i < VARIABLES; i++) verify(file, i);
    NC(ncmpi_close(file));
    return client_end();
}
