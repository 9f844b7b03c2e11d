/* ranks: 1 2 5 8 */
/* mpis: all */
/* pario: yes */
/* calls: at least 400 */
/* leaves: random_views.data */
/*
 * random_views.c with every datatype, read back at once. Natively: MPICH 5.0.2 fails its own
 * assertion (flatten.c: actual == num_iovs) in MPI_File_set_view for filetypes with a nested struct;
 * MPICH 4.0.2 moves wrong bytes for nested resized, subarray, darray and for empty blocks, or hangs;
 * Open MPI 5.0.11 returns from collective writes before the bytes can be read back.
 */
#define WILD
#include "random_views.c"
