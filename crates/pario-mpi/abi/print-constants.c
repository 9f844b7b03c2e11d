/* Prints the constants of the MPI whose compiler wrapper compiles this, one `NAME value` per line.
 *
 * `cargo xtask abi` makes the tables of this directory from it, and the tests compare each MPI with
 * its table. A name that an MPI does not declare is given on the command line as
 * `-DMPI_NAME=ABSENT` and printed as `none`, so that all tables have the same lines.
 *
 * A handle is a number in MPICH and in the standard ABI. In Open MPI it is the address of a
 * variable, and the name of that variable is printed.
 */
#include <mpi.h>

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ABSENT LLONG_MIN

/* Open MPI declares what MPI-3 removed only to say so at compile time. */
#ifdef OPEN_MPI
#undef MPI_LB
#undef MPI_UB
#undef MPI_COMBINER_HVECTOR_INTEGER
#undef MPI_COMBINER_HINDEXED_INTEGER
#undef MPI_COMBINER_STRUCT_INTEGER
#define MPI_LB ABSENT
#define MPI_UB ABSENT
#define MPI_COMBINER_HVECTOR_INTEGER ABSENT
#define MPI_COMBINER_HINDEXED_INTEGER ABSENT
#define MPI_COMBINER_STRUCT_INTEGER ABSENT
#endif

#define DATATYPES(X) \
    X(MPI_BYTE) X(MPI_PACKED) X(MPI_CHAR) X(MPI_SIGNED_CHAR) X(MPI_UNSIGNED_CHAR) X(MPI_WCHAR) \
    X(MPI_SHORT) X(MPI_UNSIGNED_SHORT) X(MPI_INT) X(MPI_UNSIGNED) X(MPI_LONG) X(MPI_UNSIGNED_LONG) \
    X(MPI_LONG_LONG) X(MPI_LONG_LONG_INT) X(MPI_UNSIGNED_LONG_LONG) X(MPI_FLOAT) X(MPI_DOUBLE) \
    X(MPI_LONG_DOUBLE) X(MPI_C_BOOL) X(MPI_INT8_T) X(MPI_INT16_T) X(MPI_INT32_T) X(MPI_INT64_T) \
    X(MPI_UINT8_T) X(MPI_UINT16_T) X(MPI_UINT32_T) X(MPI_UINT64_T) X(MPI_C_COMPLEX) \
    X(MPI_C_FLOAT_COMPLEX) X(MPI_C_DOUBLE_COMPLEX) X(MPI_C_LONG_DOUBLE_COMPLEX) X(MPI_AINT) \
    X(MPI_OFFSET) X(MPI_COUNT) \
    X(MPI_FLOAT_INT) X(MPI_DOUBLE_INT) X(MPI_LONG_INT) X(MPI_2INT) X(MPI_SHORT_INT) \
    X(MPI_LONG_DOUBLE_INT) \
    X(MPI_CXX_BOOL) X(MPI_CXX_FLOAT_COMPLEX) X(MPI_CXX_DOUBLE_COMPLEX) \
    X(MPI_CXX_LONG_DOUBLE_COMPLEX) \
    X(MPI_CHARACTER) X(MPI_LOGICAL) X(MPI_INTEGER) X(MPI_REAL) X(MPI_DOUBLE_PRECISION) \
    X(MPI_COMPLEX) X(MPI_DOUBLE_COMPLEX) X(MPI_2REAL) X(MPI_2DOUBLE_PRECISION) X(MPI_2INTEGER) \
    X(MPI_2COMPLEX) X(MPI_2DOUBLE_COMPLEX) \
    X(MPI_LOGICAL1) X(MPI_LOGICAL2) X(MPI_LOGICAL4) X(MPI_LOGICAL8) X(MPI_LOGICAL16) \
    X(MPI_INTEGER1) X(MPI_INTEGER2) X(MPI_INTEGER4) X(MPI_INTEGER8) X(MPI_INTEGER16) \
    X(MPI_REAL2) X(MPI_REAL4) X(MPI_REAL8) X(MPI_REAL16) \
    X(MPI_COMPLEX4) X(MPI_COMPLEX8) X(MPI_COMPLEX16) X(MPI_COMPLEX32) X(MPI_LB) X(MPI_UB)

#define HANDLES(X) \
    X(MPI_COMM_NULL) X(MPI_COMM_WORLD) X(MPI_COMM_SELF) X(MPI_GROUP_NULL) X(MPI_GROUP_EMPTY) \
    X(MPI_DATATYPE_NULL) X(MPI_INFO_NULL) X(MPI_INFO_ENV) X(MPI_REQUEST_NULL) X(MPI_OP_NULL) \
    X(MPI_MAX) X(MPI_MIN) X(MPI_SUM) X(MPI_PROD) X(MPI_LAND) X(MPI_BAND) X(MPI_LOR) X(MPI_BOR) \
    X(MPI_LXOR) X(MPI_BXOR) X(MPI_MINLOC) X(MPI_MAXLOC) X(MPI_REPLACE) X(MPI_NO_OP) \
    X(MPI_WIN_NULL) X(MPI_MESSAGE_NULL) X(MPI_MESSAGE_NO_PROC) X(MPI_SESSION_NULL) \
    X(MPI_ERRHANDLER_NULL) X(MPI_ERRORS_ARE_FATAL) X(MPI_ERRORS_RETURN) X(MPI_ERRORS_ABORT) \
    X(MPI_FILE_NULL)

/* Addresses that are numbers in every MPI. */
#define ADDRESSES(X) \
    X(MPI_STATUS_IGNORE) X(MPI_STATUSES_IGNORE) X(MPI_BOTTOM) X(MPI_IN_PLACE) \
    X(MPI_CONVERSION_FN_NULL)

#define ERRORS(X) \
    X(MPI_SUCCESS) X(MPI_ERR_BUFFER) X(MPI_ERR_COUNT) X(MPI_ERR_TYPE) X(MPI_ERR_TAG) \
    X(MPI_ERR_COMM) X(MPI_ERR_RANK) X(MPI_ERR_REQUEST) X(MPI_ERR_ROOT) X(MPI_ERR_GROUP) \
    X(MPI_ERR_OP) X(MPI_ERR_TOPOLOGY) X(MPI_ERR_DIMS) X(MPI_ERR_ARG) X(MPI_ERR_UNKNOWN) \
    X(MPI_ERR_TRUNCATE) X(MPI_ERR_OTHER) X(MPI_ERR_INTERN) X(MPI_ERR_PENDING) \
    X(MPI_ERR_IN_STATUS) X(MPI_ERR_ACCESS) X(MPI_ERR_AMODE) X(MPI_ERR_ASSERT) \
    X(MPI_ERR_BAD_FILE) X(MPI_ERR_BASE) X(MPI_ERR_CONVERSION) X(MPI_ERR_DISP) \
    X(MPI_ERR_DUP_DATAREP) X(MPI_ERR_FILE_EXISTS) X(MPI_ERR_FILE_IN_USE) X(MPI_ERR_FILE) \
    X(MPI_ERR_INFO_KEY) X(MPI_ERR_INFO_NOKEY) X(MPI_ERR_INFO_VALUE) X(MPI_ERR_INFO) \
    X(MPI_ERR_IO) X(MPI_ERR_KEYVAL) X(MPI_ERR_LOCKTYPE) X(MPI_ERR_NAME) X(MPI_ERR_NO_MEM) \
    X(MPI_ERR_NOT_SAME) X(MPI_ERR_NO_SPACE) X(MPI_ERR_NO_SUCH_FILE) X(MPI_ERR_PORT) \
    X(MPI_ERR_PROC_ABORTED) X(MPI_ERR_QUOTA) X(MPI_ERR_READ_ONLY) X(MPI_ERR_RMA_ATTACH) \
    X(MPI_ERR_RMA_CONFLICT) X(MPI_ERR_RMA_FLAVOR) X(MPI_ERR_RMA_RANGE) X(MPI_ERR_RMA_SHARED) \
    X(MPI_ERR_RMA_SYNC) X(MPI_ERR_SERVICE) X(MPI_ERR_SESSION) X(MPI_ERR_SIZE) X(MPI_ERR_SPAWN) \
    X(MPI_ERR_UNSUPPORTED_DATAREP) X(MPI_ERR_UNSUPPORTED_OPERATION) X(MPI_ERR_VALUE_TOO_LARGE) \
    X(MPI_ERR_WIN) X(MPI_ERR_ERRHANDLER) X(MPI_ERR_ABI) X(MPI_ERR_LASTCODE)

#define NUMBERS(X) \
    X(MPI_MODE_CREATE) X(MPI_MODE_RDONLY) X(MPI_MODE_WRONLY) X(MPI_MODE_RDWR) \
    X(MPI_MODE_DELETE_ON_CLOSE) X(MPI_MODE_UNIQUE_OPEN) X(MPI_MODE_EXCL) X(MPI_MODE_APPEND) \
    X(MPI_MODE_SEQUENTIAL) \
    X(MPI_SEEK_SET) X(MPI_SEEK_CUR) X(MPI_SEEK_END) X(MPI_DISPLACEMENT_CURRENT) \
    X(MPI_COMBINER_NAMED) X(MPI_COMBINER_DUP) X(MPI_COMBINER_CONTIGUOUS) X(MPI_COMBINER_VECTOR) \
    X(MPI_COMBINER_HVECTOR) X(MPI_COMBINER_INDEXED) X(MPI_COMBINER_HINDEXED) \
    X(MPI_COMBINER_INDEXED_BLOCK) X(MPI_COMBINER_HINDEXED_BLOCK) X(MPI_COMBINER_STRUCT) \
    X(MPI_COMBINER_SUBARRAY) X(MPI_COMBINER_DARRAY) X(MPI_COMBINER_F90_REAL) \
    X(MPI_COMBINER_F90_COMPLEX) X(MPI_COMBINER_F90_INTEGER) X(MPI_COMBINER_RESIZED) \
    X(MPI_COMBINER_VALUE_INDEX) X(MPI_COMBINER_HVECTOR_INTEGER) \
    X(MPI_COMBINER_HINDEXED_INTEGER) X(MPI_COMBINER_STRUCT_INTEGER) \
    X(MPI_ORDER_C) X(MPI_ORDER_FORTRAN) X(MPI_DISTRIBUTE_BLOCK) X(MPI_DISTRIBUTE_CYCLIC) \
    X(MPI_DISTRIBUTE_NONE) X(MPI_DISTRIBUTE_DFLT_DARG) \
    X(MPI_TYPECLASS_REAL) X(MPI_TYPECLASS_INTEGER) X(MPI_TYPECLASS_COMPLEX) \
    X(MPI_COMM_TYPE_SHARED) X(MPI_COMM_TYPE_HW_GUIDED) X(MPI_COMM_TYPE_HW_UNGUIDED) \
    X(MPI_COMM_TYPE_RESOURCE_GUIDED) \
    X(MPI_THREAD_SINGLE) X(MPI_THREAD_FUNNELED) X(MPI_THREAD_SERIALIZED) X(MPI_THREAD_MULTIPLE) \
    X(MPI_IDENT) X(MPI_CONGRUENT) X(MPI_SIMILAR) X(MPI_UNEQUAL) \
    X(MPI_UNDEFINED) X(MPI_PROC_NULL) X(MPI_ROOT) X(MPI_ANY_SOURCE) X(MPI_ANY_TAG) \
    X(MPI_KEYVAL_INVALID) X(MPI_TAG_UB) X(MPI_LOCK_EXCLUSIVE) X(MPI_LOCK_SHARED) \
    X(MPI_MODE_NOCHECK) \
    X(MPI_MAX_INFO_KEY) X(MPI_MAX_INFO_VAL) X(MPI_MAX_ERROR_STRING) X(MPI_MAX_DATAREP_STRING) \
    X(MPI_MAX_OBJECT_NAME) X(MPI_MAX_PROCESSOR_NAME) X(MPI_MAX_PORT_NAME) \
    X(MPI_MAX_LIBRARY_VERSION_STRING)

static void number(const char *name, long long value)
{
    if (value == ABSENT)
        printf("%s none\n", name);
    else
        printf("%s %lld\n", name, value);
}

static void address(const char *name, long long value)
{
    if (value == ABSENT)
        printf("%s none\n", name);
    else
        printf("%s 0x%llx\n", name, value);
}

static void sizes(void)
{
    number("HANDLE_SIZE", sizeof(MPI_Comm));
    number("SIZEOF_FILE", sizeof(MPI_File));
    number("SIZEOF_DATATYPE", sizeof(MPI_Datatype));
    number("SIZEOF_REQUEST", sizeof(MPI_Request));
    number("SIZEOF_INFO", sizeof(MPI_Info));
    number("SIZEOF_ERRHANDLER", sizeof(MPI_Errhandler));
    number("SIZEOF_OFFSET", sizeof(MPI_Offset));
    number("SIZEOF_AINT", sizeof(MPI_Aint));
    number("SIZEOF_COUNT", sizeof(MPI_Count));
    number("STATUS_SIZE", sizeof(MPI_Status));
    number("ST_SOURCE", offsetof(MPI_Status, MPI_SOURCE));
    number("ST_TAG", offsetof(MPI_Status, MPI_TAG));
    number("ST_ERROR", offsetof(MPI_Status, MPI_ERROR));
}

/* Size and extent of each predefined datatype, in the order of the list. */
static long long extents[256][2];

static void measure(int index, long long absent, MPI_Datatype datatype)
{
    MPI_Count size = 0, lower = 0, extent = 0;
    if (absent == ABSENT || datatype == MPI_DATATYPE_NULL) {
        extents[index][0] = extents[index][1] = ABSENT;
        return;
    }
    MPI_Type_size_x(datatype, &size);
    MPI_Type_get_extent_x(datatype, &lower, &extent);
    extents[index][0] = size;
    extents[index][1] = extent;
}

static void measure_all(void)
{
    int index = 0;
#define MEASURE(name) measure(index++, (long long)(intptr_t)(name), (MPI_Datatype)(intptr_t)(name));
    DATATYPES(MEASURE)
}

#ifdef OPEN_MPI
/* From here on a predefined handle is the name of its variable. */
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, variable) #variable
static const char *handle_text(long long value)
{
    return (const char *)(intptr_t)value;
}
#else
static const char *handle_text(long long value)
{
    static char text[32];
    snprintf(text, sizeof text, "0x%llx", value);
    return text;
}
#endif

/* A number of 32 bits is a handle without a sign. */
#define BITS(x) \
    ((long long)(intptr_t)(x) == ABSENT || sizeof(x) > 4 ? (long long)(intptr_t)(x) \
                                                         : (long long)(uint32_t)(intptr_t)(x))

static void handle(const char *name, long long value)
{
    printf("%s %s\n", name, value == ABSENT ? "none" : handle_text(value));
}

/* A datatype that is MPI_DATATYPE_NULL here is as good as not declared. */
static void datatype(const char *name, long long value, int index)
{
    if (value == ABSENT || extents[index][0] == ABSENT)
        printf("%s none\n", name);
    else
        printf("%s %s %lld %lld\n", name, handle_text(value), extents[index][0], extents[index][1]);
}

int main(int argc, char **argv)
{
    int index = 0;
    MPI_Init(&argc, &argv);
    measure_all();
    sizes();
#define HANDLE(name) handle(#name, BITS(name));
    HANDLES(HANDLE)
#define ADDRESS(name) address(#name, (long long)(intptr_t)(name));
    ADDRESSES(ADDRESS)
#define NUMBER(name) number(#name, (long long)(name));
    ERRORS(NUMBER)
    NUMBERS(NUMBER)
#define DATATYPE(name) datatype(#name, BITS(name), index++);
    DATATYPES(DATATYPE)
    MPI_Finalize();
    return 0;
}
