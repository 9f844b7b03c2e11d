/*
 * Every data access routine once, written and read back. Included twice by every_function.c: with
 * CALL(name) the int-count form, and with CALL(name) the large-count form (`_c`); NAMED(function)
 * keeps the two sets of functions apart. The view counts ints; each rank owns one block of them.
 */

static void NAMED(explicit_blocking)(MPI_File file) {
    MPI_Offset mine = (MPI_Offset)client_rank * BLOCK;
    int values[BLOCK], back[BLOCK];
    MPI_Status status;

    fill(values, 1);
    OK(CALL(write_at)(file, mine, values, BLOCK, MPI_INT, &status));
    expect_full("write_at", &status);
    OK(CALL(read_at)(file, mine, clean(back), BLOCK, MPI_INT, &status));
    expect_block("read_at", &status, back, 1);

    fill(values, 2);
    OK(CALL(write_at_all)(file, mine, values, BLOCK, MPI_INT, &status));
    expect_full("write_at_all", &status);
    OK(CALL(read_at_all)(file, mine, clean(back), BLOCK, MPI_INT, &status));
    expect_block("read_at_all", &status, back, 2);
}

static void NAMED(explicit_nonblocking)(MPI_File file) {
    MPI_Offset mine = (MPI_Offset)client_rank * BLOCK;
    int values[BLOCK], back[BLOCK];
    MPI_Status status;
    MPI_Request request;

    fill(values, 3);
    OK(CALL(iwrite_at)(file, mine, values, BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_full("iwrite_at", &status);
    OK(CALL(iread_at)(file, mine, clean(back), BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_block("iread_at", &status, back, 3);

    fill(values, 4);
    OK(CALL(iwrite_at_all)(file, mine, values, BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_full("iwrite_at_all", &status);
    OK(CALL(iread_at_all)(file, mine, clean(back), BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_block("iread_at_all", &status, back, 4);
}

static void NAMED(explicit_split)(MPI_File file) {
    MPI_Offset mine = (MPI_Offset)client_rank * BLOCK;
    int values[BLOCK], back[BLOCK];
    MPI_Status status;

    fill(values, 5);
    OK(CALL(write_at_all_begin)(file, mine, values, BLOCK, MPI_INT));
    OK(MPI_File_write_at_all_end(file, values, &status));
    expect_full("write_at_all_end", &status);
    OK(CALL(read_at_all_begin)(file, mine, clean(back), BLOCK, MPI_INT));
    OK(MPI_File_read_at_all_end(file, back, &status));
    expect_block("read_at_all_end", &status, back, 5);
}

static void NAMED(individual_blocking)(MPI_File file) {
    int values[BLOCK], back[BLOCK];
    MPI_Status status;

    fill(values, 6);
    seek_mine(file);
    OK(CALL(write)(file, values, BLOCK, MPI_INT, &status));
    expect_full("write", &status);
    expect_after_mine("write", file);
    seek_mine(file);
    OK(CALL(read)(file, clean(back), BLOCK, MPI_INT, &status));
    expect_block("read", &status, back, 6);
    expect_after_mine("read", file);

    fill(values, 7);
    seek_mine(file);
    OK(CALL(write_all)(file, values, BLOCK, MPI_INT, &status));
    expect_full("write_all", &status);
    expect_after_mine("write_all", file);
    seek_mine(file);
    OK(CALL(read_all)(file, clean(back), BLOCK, MPI_INT, &status));
    expect_block("read_all", &status, back, 7);
    expect_after_mine("read_all", file);
}

static void NAMED(individual_nonblocking)(MPI_File file) {
    int values[BLOCK], back[BLOCK];
    MPI_Status status;
    MPI_Request request;

    fill(values, 8);
    seek_mine(file);
    OK(CALL(iwrite)(file, values, BLOCK, MPI_INT, &request));
    expect_after_mine("iwrite, before its wait", file);
    OK(MPI_Wait(&request, &status));
    expect_full("iwrite", &status);
    seek_mine(file);
    OK(CALL(iread)(file, clean(back), BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_block("iread", &status, back, 8);
    expect_after_mine("iread", file);

    fill(values, 9);
    seek_mine(file);
    OK(CALL(iwrite_all)(file, values, BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_full("iwrite_all", &status);
    expect_after_mine("iwrite_all", file);
    seek_mine(file);
    OK(CALL(iread_all)(file, clean(back), BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_block("iread_all", &status, back, 9);
    expect_after_mine("iread_all", file);
}

static void NAMED(individual_split)(MPI_File file) {
    int values[BLOCK], back[BLOCK];
    MPI_Status status;

    fill(values, 10);
    seek_mine(file);
    OK(CALL(write_all_begin)(file, values, BLOCK, MPI_INT));
    OK(MPI_File_write_all_end(file, values, &status));
    expect_full("write_all_end", &status);
    expect_after_mine("write_all_end", file);
    seek_mine(file);
    OK(CALL(read_all_begin)(file, clean(back), BLOCK, MPI_INT));
    OK(MPI_File_read_all_end(file, back, &status));
    expect_block("read_all_end", &status, back, 10);
    expect_after_mine("read_all_end", file);
}

static void NAMED(shared_blocking)(MPI_File file) {
    int values[BLOCK], back[BLOCK];
    MPI_Status status;

    fill(values, 11);
    rewind_shared(file);
    OK(CALL(write_shared)(file, values, BLOCK, MPI_INT, &status));
    expect_full("write_shared", &status);
    expect_shared_at_end("write_shared", file);
    rewind_shared(file);
    OK(CALL(read_shared)(file, clean(back), BLOCK, MPI_INT, &status));
    expect_full("read_shared", &status);
    expect_each_block_once("read_shared", back, 11);
    expect_shared_at_end("read_shared", file);
}

static void NAMED(shared_nonblocking)(MPI_File file) {
    int values[BLOCK], back[BLOCK];
    MPI_Status status;
    MPI_Request request;

    fill(values, 12);
    rewind_shared(file);
    OK(CALL(iwrite_shared)(file, values, BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_full("iwrite_shared", &status);
    expect_shared_at_end("iwrite_shared", file);
    rewind_shared(file);
    OK(CALL(iread_shared)(file, clean(back), BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    expect_full("iread_shared", &status);
    expect_each_block_once("iread_shared", back, 12);
    expect_shared_at_end("iread_shared", file);
}

static void NAMED(ordered)(MPI_File file) {
    int values[BLOCK], back[BLOCK];
    MPI_Status status;

    fill(values, 13);
    rewind_shared(file);
    OK(CALL(write_ordered)(file, values, BLOCK, MPI_INT, &status));
    expect_full("write_ordered", &status);
    expect_shared_at_end("write_ordered", file);
    OK(CALL(read_at)(file, (MPI_Offset)client_rank * BLOCK, clean(back), BLOCK, MPI_INT, &status));
    expect_block("write_ordered seen by read_at", &status, back, 13);
    rewind_shared(file);
    OK(CALL(read_ordered)(file, clean(back), BLOCK, MPI_INT, &status));
    expect_block("read_ordered", &status, back, 13);

    fill(values, 14);
    rewind_shared(file);
    OK(CALL(write_ordered_begin)(file, values, BLOCK, MPI_INT));
    OK(MPI_File_write_ordered_end(file, values, &status));
    expect_full("write_ordered_end", &status);
    rewind_shared(file);
    OK(CALL(read_ordered_begin)(file, clean(back), BLOCK, MPI_INT));
    OK(MPI_File_read_ordered_end(file, back, &status));
    expect_block("read_ordered_end", &status, back, 14);
}

static void NAMED(every_data_access)(MPI_File file) {
    NAMED(explicit_blocking)(file);
    NAMED(explicit_nonblocking)(file);
    NAMED(explicit_split)(file);
    NAMED(individual_blocking)(file);
    NAMED(individual_nonblocking)(file);
    NAMED(individual_split)(file);
    NAMED(shared_blocking)(file);
    NAMED(shared_nonblocking)(file);
    NAMED(ordered)(file);
}
