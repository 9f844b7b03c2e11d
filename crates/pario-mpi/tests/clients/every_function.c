/* ranks: 1 2 5 8 */
/* mpis: all */
/* pario: both */
/* calls: at least 120 */
/*
 * Calls every MPI_File_* function of chapter 14 (and MPI_Register_datarep) and checks its effect;
 * the large-count forms where the library declares them. every_function_pmpi.c is the same program
 * through the PMPI names.
 */
#include "client.h"

enum { BLOCK = 16 };

/* ---- helpers of data_access.h ---- */

static int value(int rank, int salt, int index) { return salt * 100000 + rank * 100 + index; }

static void fill(int *values, int salt) {
    for (int i = 0; i < BLOCK; i++) values[i] = value(client_rank, salt, i);
}

static int *clean(int *values) {
    memset(values, 0x5a, BLOCK * sizeof *values);
    return values;
}

static void expect_full(const char *what, MPI_Status *status) {
    EXPECT_COUNT(what, status, MPI_INT, BLOCK);
}

static void expect_block(const char *what, MPI_Status *status, const int *got, int salt) {
    expect_full(what, status);
    for (int i = 0; i < BLOCK; i++)
        CHECK(got[i] == value(client_rank, salt, i), "%s: int %d: expected %d, got %d", what, i,
              value(client_rank, salt, i), got[i]);
}

/* Shared pointers give each rank some block: together they must be all blocks, each once. */
static void expect_each_block_once(const char *what, const int *got, int salt) {
    int owner = (got[0] - value(0, salt, 0)) / 100;
    int owners[64];
    for (int i = 0; i < BLOCK; i++)
        CHECK(got[i] == value(owner, salt, i), "%s: int %d: expected %d, got %d", what, i,
              value(owner, salt, i), got[i]);
    MPI_Allgather(&owner, 1, MPI_INT, owners, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 0; rank < client_size; rank++) {
        int times = 0;
        for (int i = 0; i < client_size; i++) times += owners[i] == rank;
        CHECK(times == 1, "%s: block of rank %d read %d times", what, rank, times);
    }
}

static void seek_mine(MPI_File file) {
    OK(MPI_File_seek(file, (MPI_Offset)client_rank * BLOCK, MPI_SEEK_SET));
}

static void expect_after_mine(const char *what, MPI_File file) {
    MPI_Offset position = -1, expected = (MPI_Offset)(client_rank + 1) * BLOCK;
    OK(MPI_File_get_position(file, &position));
    CHECK(position == expected, "%s: position %lld, expected %lld", what, (long long)position,
          (long long)expected);
}

static void rewind_shared(MPI_File file) {
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void expect_shared_at_end(const char *what, MPI_File file) {
    MPI_Offset position = -1, expected = (MPI_Offset)client_size * BLOCK;
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == expected, "%s: shared position %lld, expected %lld", what,
          (long long)position, (long long)expected);
    MPI_Barrier(MPI_COMM_WORLD);
}

#define CALL(name) MPI_File_##name
#define NAMED(name) name
#include "data_access.h"
#undef CALL
#undef NAMED

#if HAVE_LARGE_COUNT
#define CALL(name) MPI_File_##name##_c
#define NAMED(name) name##_large
#include "data_access.h"
#undef CALL
#undef NAMED
#endif

/* ---- the file itself ---- */

static MPI_File open_scratch(const char *path) {
    MPI_File file = MPI_FILE_NULL;
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    CHECK(file != MPI_FILE_NULL, "open gave MPI_FILE_NULL");
    return file;
}

static void close_checked(MPI_File *file) {
    OK(MPI_File_close(file));
    CHECK(*file == MPI_FILE_NULL, "close left a handle");
}

static void data_access(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    every_data_access(file);
#if HAVE_LARGE_COUNT
    every_data_access_large(file);
#endif
    close_checked(&file);
}

/* A size is read data too: nobody may change it while another rank looks. */
static void expect_size(const char *what, MPI_File file, MPI_Offset expected) {
    MPI_Offset size = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == expected, "%s: size %lld, expected %lld", what, (long long)size,
          (long long)expected);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sizes(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    expect_size("a new file", file, 0);
    OK(MPI_File_set_size(file, 1000));
    expect_size("set_size(1000)", file, 1000);
    OK(MPI_File_preallocate(file, 5000));
    expect_size("preallocate(5000)", file, 5000);
    OK(MPI_File_preallocate(file, 100));
    expect_size("preallocate(100) after 5000", file, 5000);
    OK(MPI_File_set_size(file, 10));
    expect_size("set_size(10)", file, 10);
    close_checked(&file);
}

static void group_and_amode(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    MPI_Group of_file, of_world;
    int result = -1, amode = -1;
    OK(MPI_File_get_group(file, &of_file));
    MPI_Comm_group(MPI_COMM_WORLD, &of_world);
    MPI_Group_compare(of_file, of_world, &result);
    CHECK(result == MPI_IDENT, "group of the file differs from the communicator's: %d", result);
    MPI_Group_free(&of_file);
    MPI_Group_free(&of_world);
    OK(MPI_File_get_amode(file, &amode));
    CHECK(amode == (MPI_MODE_RDWR | MPI_MODE_CREATE), "amode is %d", amode);
    close_checked(&file);
}

static int info_holds(MPI_Info info, const char *key, const char *expected) {
    char text[MPI_MAX_INFO_VAL + 1] = "";
    int length = MPI_MAX_INFO_VAL + 1, found = 0;
#ifdef MPI_ABI_VERSION
    MPI_Info_get_string(info, key, &length, text, &found);
#else
    length = MPI_MAX_INFO_VAL;
    MPI_Info_get(info, key, length, text, &found);
#endif
    return found && strcmp(text, expected) == 0;
}

static void infos(void) {
    const char *path = scratch("every_function.data");
    MPI_File file;
    MPI_Info info, used;
    remove_first(path);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "no_such_hint", "ignored");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_File_get_info(file, &used));
    CHECK(used != MPI_INFO_NULL, "get_info gave MPI_INFO_NULL");
    CHECK_PARIO(info_holds(used, "cb_buffer_size", "65536"), "cb_buffer_size is not 65536");
    MPI_Info_free(&used);
    MPI_Info_set(info, "cb_buffer_size", "131072");
    OK(MPI_File_set_info(file, info));
    OK(MPI_File_get_info(file, &used));
    CHECK(used != MPI_INFO_NULL, "get_info gave MPI_INFO_NULL after set_info");
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    close_checked(&file);
}

/* ---- views ---- */

static int combiner_of(MPI_Datatype datatype) {
    int integers, addresses, datatypes, combiner = -1;
    OK(MPI_Type_get_envelope(datatype, &integers, &addresses, &datatypes, &combiner));
    return combiner;
}

static void free_if_derived(MPI_Datatype *datatype) {
    if (combiner_of(*datatype) != MPI_COMBINER_NAMED) MPI_Type_free(datatype);
}

static void expect_shape(const char *what, MPI_Datatype datatype, int size, MPI_Aint extent) {
    int got_size = -1;
    MPI_Aint lower = -1, got_extent = -1;
    MPI_Type_size(datatype, &got_size);
    MPI_Type_get_extent(datatype, &lower, &got_extent);
    CHECK(got_size == size && got_extent == extent && lower == 0,
          "%s: size %d extent %ld lower bound %ld, expected %d, %ld, 0", what, got_size,
          (long)got_extent, (long)lower, size, (long)extent);
}

static void expect_default_view(MPI_File file) {
    MPI_Offset disp = -1;
    MPI_Datatype etype, filetype;
    char datarep[MPI_MAX_DATAREP_STRING + 1] = "";
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, datarep));
    CHECK(disp == 0 && strcmp(datarep, "native") == 0, "new file: disp %lld, datarep %s",
          (long long)disp, datarep);
    expect_shape("etype of a new file", etype, 1, 1);
    expect_shape("filetype of a new file", filetype, 1, 1);
    free_if_derived(&etype);
    free_if_derived(&filetype);
}

/* Every second pair of ints, starting at byte 8 plus this rank's place among the pairs. */
static MPI_Datatype interleaved(void) {
    MPI_Datatype pair, filetype;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, (MPI_Aint)(client_size * 2 * sizeof(int)), &filetype);
    MPI_Type_free(&pair);
    MPI_Type_commit(&filetype);
    return filetype;
}

static void views(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    MPI_Datatype filetype = interleaved(), got_etype, got_filetype;
    MPI_Offset disp = -1, mine = 8 + client_rank * 2 * (MPI_Offset)sizeof(int), bytes = -1;
    char datarep[MPI_MAX_DATAREP_STRING + 1] = "";
    int pairs[2] = {1, 2}, tiles = 3;

    expect_default_view(file);
    OK(MPI_File_set_view(file, mine, MPI_INT, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    OK(MPI_File_get_view(file, &disp, &got_etype, &got_filetype, datarep));
    CHECK(disp == mine, "disp %lld, expected %lld", (long long)disp, (long long)mine);
    CHECK(strcmp(datarep, "native") == 0, "datarep is %s", datarep);
    CHECK(combiner_of(got_etype) == MPI_COMBINER_NAMED || combiner_of(got_etype) == MPI_COMBINER_DUP,
          "etype MPI_INT came back with combiner %d", combiner_of(got_etype));
    expect_shape("etype", got_etype, 4, 4);
    expect_shape("filetype", got_filetype, 8, client_size * 8);

    /* The copy must describe the same bytes: it is used as a filetype again. */
    OK(MPI_File_set_view(file, mine, got_etype, got_filetype, "native", MPI_INFO_NULL));
    free_if_derived(&got_etype);
    free_if_derived(&got_filetype);
    for (int tile = 0; tile < tiles; tile++)
        OK(MPI_File_write(file, pairs, 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_get_byte_offset(file, 3, &bytes));
    CHECK(bytes == mine + client_size * 8 + 4, "byte offset of etype 3 is %lld, expected %lld",
          (long long)bytes, (long long)(mine + client_size * 8 + 4));
    settle(file, MPI_COMM_WORLD);
    expect_size("written through the view", file, 8 + (MPI_Offset)tiles * client_size * 8);
    close_checked(&file);
}

static void seeks(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    MPI_Offset position = -1;
    OK(MPI_File_set_size(file, 80));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_seek(file, 7, MPI_SEEK_SET));
    OK(MPI_File_seek(file, -3, MPI_SEEK_CUR));
    OK(MPI_File_get_position(file, &position));
    CHECK(position == 4, "seek CUR: %lld, expected 4", (long long)position);
    OK(MPI_File_seek(file, -1, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &position));
    CHECK(position == 19, "seek END: %lld, expected 19", (long long)position);

    OK(MPI_File_seek_shared(file, 5, MPI_SEEK_SET));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, 2, MPI_SEEK_CUR));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == 7, "seek_shared CUR: %lld, expected 7", (long long)position);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, -2, MPI_SEEK_END));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == 18, "seek_shared END: %lld, expected 18", (long long)position);
    close_checked(&file);
}

static void type_extents(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    MPI_Datatype filetype = interleaved();
    MPI_Aint extent = -1;
    OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    CHECK(extent == 8, "extent of MPI_DOUBLE in the file is %ld", (long)extent);
    OK(MPI_File_get_type_extent(file, filetype, &extent));
    CHECK(extent == client_size * 8, "extent of the filetype is %ld", (long)extent);
#if HAVE_LARGE_COUNT
    MPI_Count large = -1;
    OK(MPI_File_get_type_extent_c(file, filetype, &large));
    CHECK(large == client_size * 8, "large extent of the filetype is %lld", (long long)large);
#endif
    MPI_Type_free(&filetype);
    close_checked(&file);
}

/* ---- data representations ---- */

static int conversions_read, conversions_written, extents_asked;

static void swap_ints(void *target, const void *source, MPI_Count count) {
    const unsigned char *from = source;
    unsigned char *to = target;
    for (MPI_Count i = 0; i < count * 4; i++) to[i] = from[i / 4 * 4 + 3 - i % 4];
}

static int swap_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state) {
    MPI_Aint lower;
    (*(int *)state)++;
    return MPI_Type_get_extent(datatype, &lower, extent);
}

static int swap_read(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position,
                     void *state) {
    (void)datatype, (void)state;
    conversions_read++;
    swap_ints((char *)user + position * 4, file, count);
    return MPI_SUCCESS;
}

static int swap_write(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position,
                      void *state) {
    (void)datatype, (void)state;
    conversions_written++;
    swap_ints(file, (char *)user + position * 4, count);
    return MPI_SUCCESS;
}

static void expect_on_disk(MPI_File file, const int *written) {
    unsigned char raw[BLOCK * 4];
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, client_rank * BLOCK * 4, raw, BLOCK * 4, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BLOCK * 4; i++) {
        int expected = (written[i / 4] >> (24 - i % 4 * 8)) & 0xff;
        CHECK(raw[i] == expected, "big-endian byte %d: expected %d, got %d", i, expected, raw[i]);
    }
}

/* Writes and reads ints with a big-endian `datarep`, true if the library accepts that. */
static int big_endian_round_trip(MPI_File file, const char *datarep) {
    int values[BLOCK], back[BLOCK];
    MPI_Status status;
    if (!OK_PARIO(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, datarep, MPI_INFO_NULL))) return 0;
    fill(values, 20);
    MPI_Offset mine = (MPI_Offset)client_rank * BLOCK;
    if (!OK_PARIO(MPI_File_write_at_all(file, mine, values, BLOCK, MPI_INT, &status))) return 0;
    expect_full(datarep, &status);
    OK(MPI_File_read_at_all(file, mine, clean(back), BLOCK, MPI_INT, &status));
    expect_block(datarep, &status, back, 20);
    expect_on_disk(file, values);
    return 1;
}

static void registered_datarep(MPI_File file) {
    MPI_Aint extent = -1;
    int class;
    if (!OK_PARIO(MPI_Register_datarep("swapped", swap_read, swap_write, swap_extent, &extents_asked)))
        return;
    class = class_of(MPI_Register_datarep("swapped", swap_read, swap_write, swap_extent, NULL));
    CHECK_PARIO(class == MPI_ERR_DUP_DATAREP, "a second datarep of one name gave class %d", class);
    if (!big_endian_round_trip(file, "swapped")) return;
    CHECK_PARIO(conversions_read > 0 && conversions_written > 0,
                "conversion functions called %d and %d times", conversions_read, conversions_written);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "swapped", MPI_INFO_NULL));
    extents_asked = 0;
    OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    CHECK_PARIO(extents_asked > 0 && extent == 4, "extent function asked %d times, extent %ld",
                extents_asked, (long)extent);
}

#if HAVE_LARGE_COUNT
static int large_read(void *user, MPI_Datatype datatype, MPI_Count count, void *file,
                      MPI_Offset position, void *state) {
    (void)datatype, (void)state;
    swap_ints((char *)user + position * 4, file, count);
    return MPI_SUCCESS;
}

static int large_write(void *user, MPI_Datatype datatype, MPI_Count count, void *file,
                       MPI_Offset position, void *state) {
    (void)datatype, (void)state;
    swap_ints(file, (char *)user + position * 4, count);
    return MPI_SUCCESS;
}
#endif

static void datareps(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    /* Registration belongs to no file: its errors are raised on a communicator. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    big_endian_round_trip(file, "external32");
    registered_datarep(file);
    /* Null conversion functions mean "as native", with an extent function of their own. */
    if (OK_PARIO(MPI_Register_datarep("as_native", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                                      swap_extent, &extents_asked))) {
        int word = 42 + client_rank, back = 0, offset = client_rank;
        if (OK_PARIO(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "as_native", MPI_INFO_NULL))) {
            OK(MPI_File_write_at(file, offset, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
            OK(MPI_File_read_at(file, offset, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
            CHECK(back == word, "as_native: expected %d, got %d", word, back);
        }
    }
#if HAVE_LARGE_COUNT
    if (OK_PARIO(MPI_Register_datarep_c("swapped_large", large_read, large_write, swap_extent,
                                        &extents_asked)))
        big_endian_round_trip(file, "swapped_large");
#endif
    close_checked(&file);
}

/* ---- consistency ---- */

static void atomicity(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    int atomic = -1, word = 7 + client_rank, back = 0;
    OK(MPI_File_get_atomicity(file, &atomic));
    CHECK(atomic == 0, "a new file is atomic: %d", atomic);
    if (OK_PARIO(MPI_File_set_atomicity(file, 1))) {
        OK(MPI_File_get_atomicity(file, &atomic));
        CHECK_PARIO(atomic != 0, "set_atomicity(1) gave %d", atomic);
        /* In atomic mode a barrier alone orders a write before another rank's read. */
        OK(MPI_File_write_at(file, client_rank * 4, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
        MPI_Barrier(MPI_COMM_WORLD);
        int next = (client_rank + 1) % client_size;
        OK(MPI_File_read_at(file, next * 4, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(back == 7 + next, "atomic read: expected %d, got %d", 7 + next, back);
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_set_atomicity(file, 0));
        OK(MPI_File_get_atomicity(file, &atomic));
        CHECK(atomic == 0, "set_atomicity(0) gave %d", atomic);
    }
    OK(MPI_File_sync(file));
    close_checked(&file);
}

/* ---- error handlers and handles ---- */

static int handler_calls, handler_code;
static MPI_File handler_file;

static void remember(MPI_File *file, int *code, ...) {
    handler_calls++;
    handler_file = *file;
    handler_code = *code;
}

static void expect_handled(const char *what, MPI_File file, int calls) {
    CHECK_PARIO(handler_calls == calls, "%s: handler called %d times, expected %d", what,
                handler_calls, calls);
    if (handler_calls == 0) return;
    CHECK(handler_file == file, "%s: handler got another handle", what);
    CHECK(class_of(handler_code) == MPI_ERR_ARG, "%s: handler got code %d", what, handler_code);
}

static void error_handlers(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
    MPI_Errhandler mine, got, of_null;
    OK(MPI_File_create_errhandler(remember, &mine));
    OK(MPI_File_get_errhandler(file, &got));
    CHECK(got == MPI_ERRORS_RETURN, "the default handler of a file is not MPI_ERRORS_RETURN");
    MPI_Errhandler_free(&got);
    OK(MPI_File_set_errhandler(file, mine));
    OK(MPI_File_get_errhandler(file, &got));
    CHECK(got == mine, "get_errhandler gave another handler");
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&mine);
    handler_calls = 0;
    OK(MPI_File_call_errhandler(file, MPI_ERR_ARG));
    expect_handled("call_errhandler", file, 1);
    close_checked(&file);

    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &of_null));
    CHECK(of_null == MPI_ERRORS_RETURN, "MPI_FILE_NULL has another handler than ERRORS_RETURN");
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&of_null);
    /* Open MPI 5.0 aborts here, so the call is made where it can return only. */
    if (!client_is_native || !library_is("Open MPI"))
        OK_PARIO(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_ARG));
}

static void handles(void) {
    MPI_File file = open_scratch(scratch("every_function.data"));
#ifndef MPI_ABI_VERSION
    CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file, "f2c(c2f(file)) is another handle");
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL, "null did not survive c2f");
#endif
#if MPI_VERSION >= 5
    CHECK(MPI_File_fromint(MPI_File_toint(file)) == file, "fromint(toint(file)) differs");
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL,
          "null did not survive toint");
#endif
    close_checked(&file);
}

static void deletion(void) {
    const char *path = scratch("every_function.data");
    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(access(path, F_OK) != 0, "%s is there after MPI_File_delete", path);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    close_checked(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(access(path, F_OK) != 0, "%s is there after DELETE_ON_CLOSE", path);
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    data_access();
    sizes();
    group_and_amode();
    infos();
    views();
    seeks();
    type_extents();
    atomicity();
    error_handlers();
    handles();
    datareps();
    deletion();
    return client_end();
}
