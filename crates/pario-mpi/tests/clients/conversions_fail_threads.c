/* ranks: 2 3 */
/* mpis: all */
/* pario: yes */
/* calls: at least 20 */
/* conversions_fail.c with MPI_THREAD_MULTIPLE: pario's own thread, or the one that waits, converts what a
 * non-blocking collective read. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "conversions_fail.c"
