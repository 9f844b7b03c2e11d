/* ranks: 5 */
/* mpis: all */
/* pario: yes */
/* env: PARIO_NODE_MEMORY=segment */
/* calls: at least 400 */
/* leaves: random_views.data */
/* random_views_wild.c where ranks share memory but cannot use each other's own. */
#define WILD
#include "random_views.c"
