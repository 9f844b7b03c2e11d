/* ranks: 1 2 5 8 */
/* mpis: all */
/* pario: both */
/* calls: at least 120 */
#include "pmpi_names.h"

#include "every_function.c"
