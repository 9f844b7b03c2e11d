/* ranks: 4 */
/* mpis: all */
/* pario: yes */
/* calls: unknown */
/* ends: badly */
/* preload: fail_clock */
/* leaves: panics.data */
/* says: pario: rank 1: a panic in */
/* env: PARIO_NODE_MEMORY=none */
/* panics.c with all messages of pario's through MPI: a file that is not open yet must not wait for
 * the others on its way out. */
#include "panics.c"
