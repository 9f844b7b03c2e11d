/* ranks: 4 */
/* mpis: all */
/* pario: yes */
/* calls: at least 3 */
/* alone: yes */
/* waits_asleep.c with MPI_THREAD_MULTIPLE. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "waits_asleep.c"
