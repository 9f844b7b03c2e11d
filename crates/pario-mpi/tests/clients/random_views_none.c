/* ranks: 5 */
/* mpis: all */
/* pario: yes */
/* env: PARIO_NODE_MEMORY=none */
/* calls: at least 400 */
/* leaves: random_views.data */
/* random_views_wild.c with all messages of pario's through MPI. */
#define WILD
#include "random_views.c"
