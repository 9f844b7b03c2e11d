/* ranks: 1 2 */
/* mpis: all openmpi4 */
/* pario: both */
/* calls: at least 40 */
/*
 * Every predefined type in external32 (MPI-4.1, section 14.5.2): big-endian, long 4 bytes, wchar_t 2,
 * long double and REAL*16 IEEE quadruple precision. The bytes below were written down from the
 * standard's table; where MPI_Pack_external of the library differs, a line NOTE says so.
 */
#include "client.h"
#include <complex.h>
#include <stdbool.h>
#include <wchar.h>

typedef struct {
    const char *name;
    MPI_Datatype type;
    const void *memory; /* two values */
    const char *expected; /* two values in the file, as hexadecimal digits */
} Case;

static MPI_File file;

static int from_hex(const char *text, unsigned char *bytes) {
    int count = 0;
    for (unsigned value; sscanf(text, "%2x", &value) == 1; text += 2) {
        bytes[count++] = (unsigned char)value;
        while (text[2] == ' ') text++;
    }
    return count;
}

/* MPICH ends the program when it is to convert these. */
static int library_aborts(const Case *it) {
    const char *names[] = {"MPI_WCHAR", "MPI_REAL2", "MPI_COMPLEX4", "MPIX_", "_INT", "MPI_2", "MPI_LOGICAL"};
    int is_one = 0;
    for (int i = 0; i < 7; i++) is_one |= strstr(it->name, names[i]) != NULL;
    return is_one && library_is("MPICH");
}

static void compare_with_pack(const Case *it, const unsigned char *expected, int bytes) {
    char packed[256] = {0};
    MPI_Aint position = 0;
    if (library_aborts(it)) return;
    int code = MPI_Pack_external("external32", it->memory, 2, it->type, packed, sizeof packed, &position);
    if (client_rank == 0 && (code != MPI_SUCCESS || position != bytes || memcmp(packed, expected, (size_t)bytes)))
        printf("NOTE MPI_Pack_external of %s differs from the standard\n", it->name);
}

static void writes_and_reads(const Case *it, MPI_Datatype etype) {
    unsigned char expected[256], found[256] = {0}, back[256], memory[256];
    MPI_Aint lower, extent;
    int bytes = from_hex(it->expected, expected);
    if (client_is_native && library_aborts(it)) return;
    MPI_Offset at = (MPI_Offset)client_rank * 2, size = -1;
    OK(MPI_Type_get_extent(it->type, &lower, &extent));
    memset(back, 0, sizeof back);
    memset(memory, 0, sizeof memory);
    memcpy(memory, it->memory, 2 * (size_t)extent);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_set_size(file, 0));
    if (!OK_PARIO(MPI_File_set_view(file, 0, etype, etype, "external32", MPI_INFO_NULL))) return;
    if (etype == MPI_BYTE) at = at / 2 * bytes;
    if (!OK_PARIO(MPI_File_write_at_all(file, at, memory, 2, it->type, MPI_STATUS_IGNORE))) return;
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK_PARIO(size == (MPI_Offset)bytes * client_size, "%s: %lld bytes in the file, expected %d for each rank",
                it->name, (long long)size, bytes);
    OK_PARIO(MPI_File_read_at_all(file, at, back, 2, it->type, MPI_STATUS_IGNORE));
    CHECK_PARIO(memcmp(back, memory, 2 * (size_t)extent) == 0, "%s: what was read back differs", it->name);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(file, (MPI_Offset)client_rank * bytes, found, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < bytes; i++)
        CHECK_PARIO(found[i] == expected[i], "%s: byte %d is 0x%02x, expected 0x%02x", it->name, i,
                    found[i], expected[i]);
    compare_with_pack(it, expected, bytes);
}

/* Some libraries have a type in their header and not in the library. */
static int is_there(MPI_Datatype type) {
    int size = 0;
    return type != MPI_DATATYPE_NULL && MPI_Type_size(type, &size) == MPI_SUCCESS && size > 0;
}

#define HALF "3e00 c000"
#define SINGLE "3fc00000 c0000000"
#define DOUBLE "3ff8000000000000 c000000000000000"
#define QUAD "3fff8000000000000000000000000000 c0000000000000000000000000000000"
#define WIDE "00000000000000000000000000000001 fffffffffffffffffffffffffffffffe"
#define NUMBERS(type, name) static const type name[] = {1, (type)-2}

NUMBERS(int8_t, one);
NUMBERS(int16_t, two);
NUMBERS(int32_t, four);
NUMBERS(int64_t, eight);
UNUSED NUMBERS(__int128, sixteen);
static const unsigned long unsigned_long[] = {1, 0xfffffffe};
static const wchar_t wide[] = {1, 0xfffe};
UNUSED static const uint16_t half[] = {0x3e00, 0xc000, 0x3e00, 0xc000};
static const float single[] = {1.5, -2, 1.5, -2, 1.5, -2, 1.5, -2};
static const double twice[] = {1.5, -2, 1.5, -2, 1.5, -2, 1.5, -2};
static const __float128 quad[] = {1.5, -2, 1.5, -2};
static const bool truth[] = {true, false};
static long double extended[4];

static void elementary(void) {
    const Case cases[] = {
        {"MPI_BYTE", MPI_BYTE, one, "01 fe"},
        {"MPI_CHAR", MPI_CHAR, one, "01 fe"},
        {"MPI_SIGNED_CHAR", MPI_SIGNED_CHAR, one, "01 fe"},
        {"MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, one, "01 fe"},
        {"MPI_WCHAR", MPI_WCHAR, wide, "0001 fffe"},
        {"MPI_SHORT", MPI_SHORT, two, "0001 fffe"},
        {"MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT, two, "0001 fffe"},
        {"MPI_INT", MPI_INT, four, "00000001 fffffffe"},
        {"MPI_UNSIGNED", MPI_UNSIGNED, four, "00000001 fffffffe"},
        {"MPI_LONG", MPI_LONG, eight, "00000001 fffffffe"},
        {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, unsigned_long, "00000001 fffffffe"},
        {"MPI_LONG_LONG", MPI_LONG_LONG, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_INT8_T", MPI_INT8_T, one, "01 fe"},
        {"MPI_INT16_T", MPI_INT16_T, two, "0001 fffe"},
        {"MPI_INT32_T", MPI_INT32_T, four, "00000001 fffffffe"},
        {"MPI_INT64_T", MPI_INT64_T, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_UINT8_T", MPI_UINT8_T, one, "01 fe"},
        {"MPI_UINT16_T", MPI_UINT16_T, two, "0001 fffe"},
        {"MPI_UINT32_T", MPI_UINT32_T, four, "00000001 fffffffe"},
        {"MPI_UINT64_T", MPI_UINT64_T, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_AINT", MPI_AINT, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_OFFSET", MPI_OFFSET, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_COUNT", MPI_COUNT, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_C_BOOL", MPI_C_BOOL, truth, "01 00"},
        {"MPI_FLOAT", MPI_FLOAT, single, SINGLE},
        {"MPI_DOUBLE", MPI_DOUBLE, twice, DOUBLE},
        {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, extended, QUAD},
        {"MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, single, SINGLE SINGLE},
        {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, twice, DOUBLE DOUBLE},
        {"MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX, extended, QUAD QUAD},
        {"MPI_CXX_BOOL", MPI_CXX_BOOL, truth, "01 00"},
        {"MPI_CXX_FLOAT_COMPLEX", MPI_CXX_FLOAT_COMPLEX, single, SINGLE SINGLE},
        {"MPI_CXX_DOUBLE_COMPLEX", MPI_CXX_DOUBLE_COMPLEX, twice, DOUBLE DOUBLE},
        {"MPI_CXX_LONG_DOUBLE_COMPLEX", MPI_CXX_LONG_DOUBLE_COMPLEX, extended, QUAD QUAD},
        {"MPI_CHARACTER", MPI_CHARACTER, one, "01 fe"},
        {"MPI_LOGICAL", MPI_LOGICAL, four, "00000001 fffffffe"},
        {"MPI_INTEGER", MPI_INTEGER, four, "00000001 fffffffe"},
        {"MPI_REAL", MPI_REAL, single, SINGLE},
        {"MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, twice, DOUBLE},
        {"MPI_COMPLEX", MPI_COMPLEX, single, SINGLE SINGLE},
        {"MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, twice, DOUBLE DOUBLE},
        {"MPI_INTEGER1", MPI_INTEGER1, one, "01 fe"},
        {"MPI_INTEGER2", MPI_INTEGER2, two, "0001 fffe"},
        {"MPI_INTEGER4", MPI_INTEGER4, four, "00000001 fffffffe"},
        {"MPI_INTEGER8", MPI_INTEGER8, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_REAL4", MPI_REAL4, single, SINGLE},
        {"MPI_REAL8", MPI_REAL8, twice, DOUBLE},
        {"MPI_REAL16", MPI_REAL16, quad, QUAD},
        {"MPI_COMPLEX8", MPI_COMPLEX8, single, SINGLE SINGLE},
        {"MPI_COMPLEX16", MPI_COMPLEX16, twice, DOUBLE DOUBLE},
        {"MPI_COMPLEX32", MPI_COMPLEX32, quad, QUAD QUAD},
#ifndef OPEN_MPI
        {"MPI_INTEGER16", MPI_INTEGER16, sixteen, WIDE},
#endif
#if defined(MPI_REAL2) && !defined(OPEN_MPI)
        {"MPI_REAL2", MPI_REAL2, half, HALF},
        {"MPI_COMPLEX4", MPI_COMPLEX4, half, HALF HALF},
#endif
#if defined(MPI_LOGICAL16) && !defined(OPEN_MPI)
        {"MPI_LOGICAL1", MPI_LOGICAL1, one, "01 fe"},
        {"MPI_LOGICAL2", MPI_LOGICAL2, two, "0001 fffe"},
        {"MPI_LOGICAL4", MPI_LOGICAL4, four, "00000001 fffffffe"},
        {"MPI_LOGICAL8", MPI_LOGICAL8, eight, "0000000000000001 fffffffffffffffe"},
        {"MPI_LOGICAL16", MPI_LOGICAL16, sixteen, WIDE},
#endif
#ifdef MPIX_C_FLOAT16
        {"MPIX_C_FLOAT16", MPIX_C_FLOAT16, half, HALF},
#endif
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (is_there(cases[i].type)) writes_and_reads(&cases[i], cases[i].type);
}

static void pairs(void) {
    static struct { short value; int index; } shorts[] = {{1, 3}, {-2, 4}};
    static struct { float value; int index; } floats[] = {{1.5, 3}, {-2, 4}};
    static struct { double value; int index; } doubles[] = {{1.5, 3}, {-2, 4}};
    static struct { long value; int index; } longs[] = {{1, 3}, {-2, 4}};
    static struct { int value; int index; } ints[] = {{1, 3}, {-2, 4}};
    static struct { long double value; int index; } wides[2];
    wides[0].value = 1.5, wides[0].index = 3, wides[1].value = -2, wides[1].index = 4;
    const Case cases[] = {
        {"MPI_SHORT_INT", MPI_SHORT_INT, shorts, "0001 00000003 fffe 00000004"},
        {"MPI_FLOAT_INT", MPI_FLOAT_INT, floats, "3fc00000 00000003 c0000000 00000004"},
        {"MPI_DOUBLE_INT", MPI_DOUBLE_INT, doubles,
         "3ff8000000000000 00000003 c000000000000000 00000004"},
        {"MPI_LONG_INT", MPI_LONG_INT, longs, "00000001 00000003 fffffffe 00000004"},
        {"MPI_2INT", MPI_2INT, ints, "00000001 00000003 fffffffe 00000004"},
        {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, wides,
         "3fff8000000000000000000000000000 00000003 c0000000000000000000000000000000 00000004"},
        {"MPI_2INTEGER", MPI_2INTEGER, ints, "00000001 00000003 fffffffe 00000004"},
        {"MPI_2REAL", MPI_2REAL, single, SINGLE SINGLE},
        {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, twice, DOUBLE DOUBLE},
#ifdef OPEN_MPI
        {"MPI_2COMPLEX", MPI_2COMPLEX, single, SINGLE SINGLE SINGLE SINGLE},
        {"MPI_2DOUBLE_COMPLEX", MPI_2DOUBLE_COMPLEX, twice, DOUBLE DOUBLE DOUBLE DOUBLE},
#endif
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (is_there(cases[i].type)) writes_and_reads(&cases[i], MPI_BYTE);
}

/* A type without a form in external32 is refused before anything is written. */
static void unknown(void) {
#ifdef MPIX_BFLOAT16
    const uint16_t values[] = {1, 2, 3, 4};
    MPI_Offset size = -1;
    MPI_Datatype mixed;
    if (client_is_native) return;
    OK(MPI_Type_create_struct(2, (int[]){2, 1}, (MPI_Aint[]){0, 4},
                              (MPI_Datatype[]){MPI_SHORT, MPIX_BFLOAT16}, &mixed));
    OK(MPI_Type_commit(&mixed));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_write_at_all(file, client_rank * 4, values, 2, MPIX_BFLOAT16, MPI_STATUS_IGNORE));
    OK(MPI_File_set_size(file, 0));
    int code = MPI_File_set_view(file, 0, MPIX_BFLOAT16, MPIX_BFLOAT16, "external32", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_DATAREP, "set_view gave class %d", class_of(code));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    code = MPI_File_write_at_all(file, 0, values, 1, mixed, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_DATAREP, "write gave class %d", class_of(code));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 0, "a refused write left %lld bytes", (long long)size);
    OK(MPI_Type_free(&mixed));
#endif
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const char *path = scratch("external32.data");
    for (int i = 0; i < 4; i++) extended[i] = i % 2 ? -2 : 1.5;
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    elementary();
    pairs();
    unknown();
    OK(MPI_File_close(&file));
    return client_end();
}
