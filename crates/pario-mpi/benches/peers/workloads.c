/*
 * Workloads of parallel I/O, measured on whatever MPI-IO the process has, beside Block I/O: the same bytes
 * by POSIX calls, one contiguous part for each rank.
 *
 *     workloads PATH JOB...
 *
 * A job is `workload=NAME,level=N,key=number,...` (see `Job` in pattern.h; the caller knows which keys a
 * workload needs). Levels are those of the ROMIO papers:
 *
 *     0   independent, one call for each contiguous piece
 *     2   independent, one call with a view
 *     3   collective, one call with a view
 *
 * The file exists with all its bytes before anything is measured. A measurement goes from the first rank
 * that leaves a barrier to the last rank that is done, on the clock of the machine that all ranks run on; it
 * is divided by the number of transfers. (The longest time of a rank is less where ranks share processors:
 * one that has not begun, since another has its processor, does not count its waiting. Block I/O on 16
 * ranks and 2 processors would seem to read 28 GB/s.) After a write the ranks read the file back by POSIX
 * calls, after a read they look at their buffers, poisoned before: every byte is compared with what its
 * place in the file and the number of the call demand.
 *
 * In the workload `step` a measurement is what most programs do with a file: open, view, one call, close.
 * Block I/O opens and closes there, too.
 *
 * Before the whole problem, a small part of it is measured. What would take longer than `budget` seconds is
 * not run, and what takes long is repeated less often.
 *
 * Prints, with words `key=value`:
 *
 *     CALL    each measurement: seconds from first to last, of the rank that took longest, of all processors
 *     DONE    after the last one: bytes that a transfer moves, most memory that a rank needed besides
 *     SKIP    what was not run, and why: `calls`, or `estimate` in seconds
 *     WRONG   what was not as it should be
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

enum { PIECE_BYTES = 1 << 20, RUNS_MAX = 200000 };

typedef enum { WRITE, READ } Direction;
typedef enum { BY_BLOCKS, THROUGH_MPI } Side;

static const char *DIRECTIONS[] = {"write", "read"};
static const char *SIDES[] = {"block", "mpi"};

static int rank, size;

/* What a job works with. */
typedef struct {
    int number;
    const char *path;
    const Job *job;
    Pattern own, block;
    char *buffer;
    int posix;
    MPI_File file;
    uint32_t generation;
} Work;

/* What a measurement found. */
typedef struct {
    double seconds, longest, processor_seconds;
    int64_t wrong;
} Measured;

static void check(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, text, &len);
    fprintf(stderr, "peers: rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check_posix(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "peers: rank %d: %s: %s\n", rank, what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What belongs at a place of the file, in words of 4 bytes: every word and every generation has another. */
static uint32_t value(int64_t word, uint32_t generation) {
    return (uint32_t)word * 0x9E3779B1u + generation * 0x85EBCA6Bu;
}

typedef struct {
    uint32_t *next, generation;
    int64_t wrong;
} Cursor;

static void fill_run(void *context, int64_t offset, int64_t len) {
    Cursor *cursor = context;
    for (int64_t i = 0; i < len / 4; i++) cursor->next[i] = value(offset / 4 + i, cursor->generation);
    cursor->next += len / 4;
}

static void check_run(void *context, int64_t offset, int64_t len) {
    Cursor *cursor = context;
    int64_t wrong = 0;
    for (int64_t i = 0; i < len / 4; i++)
        wrong += cursor->next[i] != value(offset / 4 + i, cursor->generation);
    cursor->wrong += 4 * wrong;
    cursor->next += len / 4;
}

static void fill(const Work *work, const Pattern *pattern) {
    Cursor cursor = {(uint32_t *)work->buffer, work->generation, 0};
    visit_runs(pattern, fill_run, &cursor);
}

static int64_t wrong_in_buffer(const Work *work, const Pattern *pattern) {
    Cursor cursor = {(uint32_t *)work->buffer, work->generation, 0};
    visit_runs(pattern, check_run, &cursor);
    return cursor.wrong;
}

static void posix_transfer(int file, Direction direction, char *data, int64_t len, int64_t offset) {
    while (len > 0) {
        ssize_t moved = direction == WRITE ? pwrite(file, data, len, offset) : pread(file, data, len, offset);
        if (moved < 0 && errno == EINTR) continue;
        check_posix(moved >= 0, direction == WRITE ? "pwrite" : "pread");
        if (moved == 0) break;
        data += moved, len -= moved, offset += moved;
    }
}

/* Each rank looks at another part of the file. */
static int64_t wrong_in_file(const Work *work) {
    static uint32_t piece[PIECE_BYTES / 4];
    int64_t share = ceiling(work->own.file_bytes / 4, size) * 4, wrong = 0;
    int64_t end = smaller((rank + 1) * share, work->own.file_bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int64_t offset = rank * share; offset < end; offset += PIECE_BYTES) {
        int64_t len = smaller(PIECE_BYTES, end - offset);
        memset(piece, 0xEE, len);
        posix_transfer(work->posix, READ, (char *)piece, len, offset);
        Cursor cursor = {piece, work->generation, 0};
        check_run(&cursor, offset, len);
        wrong += cursor.wrong;
    }
    return wrong;
}

static int is_step(const Work *work) { return !strcmp(work->job->workload, "step"); }

static void open_file(Work *work) {
    check(MPI_File_open(MPI_COMM_WORLD, work->path, MPI_MODE_RDWR, MPI_INFO_NULL, &work->file), "open");
    if (work->job->level > 0)
        check(MPI_File_set_view(work->file, work->own.displacement, work->own.etype, work->own.filetype,
                                "native", MPI_INFO_NULL), "set_view");
}

static void block_io(Work *work, Direction direction) {
    int64_t len = work->own.bytes / work->own.transfers, start = work->block.boxes[0].base;
    int file = is_step(work) ? open(work->path, O_RDWR) : work->posix;
    check_posix(file >= 0, work->path);
    for (int i = 0; i < work->own.transfers; i++)
        posix_transfer(file, direction, work->buffer + i * len, len, start + i * len);
    if (is_step(work)) close(file);
}

typedef struct {
    Work *work;
    Direction direction;
    char *next;
} Pieces;

static void transfer_piece(void *context, int64_t offset, int64_t len) {
    Pieces *pieces = context;
    MPI_File file = pieces->work->file;
    int count = (int)len;
    if (pieces->direction == WRITE)
        check(MPI_File_write_at(file, offset, pieces->next, count, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
    else
        check(MPI_File_read_at(file, offset, pieces->next, count, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
    pieces->next += len;
}

static void transfer_with_view(Work *work, Direction direction) {
    int (*const WRITES[])(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *) = {
        MPI_File_write_at, MPI_File_write_at_all};
    int (*const READS[])(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Status *) = {
        MPI_File_read_at, MPI_File_read_at_all};
    int collective = work->job->level == 3, etype_bytes;
    MPI_Type_size(work->own.etype, &etype_bytes);
    int64_t len = work->own.bytes / work->own.transfers;
    int count = (int)(len / etype_bytes);
    for (int i = 0; i < work->own.transfers; i++) {
        MPI_Offset at = (MPI_Offset)i * count;
        char *data = work->buffer + i * len;
        int code = direction == WRITE
                       ? WRITES[collective](work->file, at, data, count, work->own.etype, MPI_STATUS_IGNORE)
                       : READS[collective](work->file, at, data, count, work->own.etype, MPI_STATUS_IGNORE);
        check(code, direction == WRITE ? "write with a view" : "read with a view");
    }
}

static void mpi_io(Work *work, Direction direction) {
    if (is_step(work)) open_file(work);
    if (work->job->level == 0) {
        Pieces pieces = {work, direction, work->buffer};
        visit_runs(&work->own, transfer_piece, &pieces);
    } else {
        transfer_with_view(work, direction);
    }
    if (is_step(work)) check(MPI_File_close(&work->file), "close");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct timeval user = usage.ru_utime, system = usage.ru_stime;
    return user.tv_sec + system.tv_sec + 1e-6 * (user.tv_usec + system.tv_usec);
}

/* A number of /proc/self/status, in bytes. */
static int64_t memory(const char *name) {
    char line[256];
    int64_t kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, name, strlen(name))) kilobytes = atoll(line + strlen(name) + 1);
    if (status) fclose(status);
    return kilobytes * 1024;
}

/* Lets the peak of memory begin anew; the outcome is what there is now. Where the system cannot do that,
 * peaks of before hide smaller ones. */
static int64_t reset_peak(void) {
    FILE *clear = fopen("/proc/self/clear_refs", "w");
    int done = clear && fputs("5", clear) >= 0;
    if (clear) done = !fclose(clear) && done;
    return memory(done ? "VmRSS" : "VmHWM");
}

static Measured measure(Work *work, Side side, Direction direction) {
    const Pattern *pattern = side == THROUGH_MPI ? &work->own : &work->block;
    Measured measured = {0, 0, 0, 0};
    if (direction == WRITE) {
        work->generation++;
        fill(work, pattern);
    } else {
        memset(work->buffer, 0xEE, work->own.bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double processor = processor_seconds(), begin = now();
    (side == THROUGH_MPI ? mpi_io : block_io)(work, direction);
    double done = now();
    processor = processor_seconds() - processor;
    /* The beginning with the other sign, so that the largest is the first. */
    double mine[] = {-begin, done, done - begin}, all[3];
    MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    measured.seconds = all[0] + all[1];
    measured.longest = all[2];
    MPI_Allreduce(&processor, &measured.processor_seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int64_t wrong = direction == WRITE ? wrong_in_file(work) : wrong_in_buffer(work, pattern);
    MPI_Allreduce(&wrong, &measured.wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return measured;
}

/* Measures both sides in turn; stops where the budget ends, but not before the first call. */
static void measure_all(Work *work, Direction direction) {
    int calls = work->job->calls, transfers = work->own.transfers;
    int64_t wrong[2] = {0, 0}, before = 0, peak, most;
    double left = work->job->budget;
    for (int index = 0; index <= calls; index++)
        for (Side side = BY_BLOCKS; side <= THROUGH_MPI; side++) {
            if (side == THROUGH_MPI && index == 0) before = reset_peak();
            Measured measured = measure(work, side, direction);
            wrong[side] += measured.wrong;
            if (rank == 0)
                printf("CALL job=%d direction=%s side=%s index=%d seconds=%.9f longest=%.9f cpu=%.6f\n",
                       work->number, DIRECTIONS[direction], SIDES[side], index, measured.seconds / transfers,
                       measured.longest / transfers, measured.processor_seconds / transfers);
            left -= measured.seconds;
            if (side == THROUGH_MPI && left < measured.seconds) calls = index;
        }
    peak = memory("VmHWM") - before;
    MPI_Allreduce(&peak, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    for (Side side = BY_BLOCKS; rank == 0 && side <= THROUGH_MPI; side++) {
        const char *direction_name = DIRECTIONS[direction], *side_name = SIDES[side];
        long long bytes = work->own.file_bytes / transfers, besides = side == THROUGH_MPI ? most : 0;
        if (wrong[side])
            printf("WRONG job=%d direction=%s side=%s bytes=%lld\n", work->number, direction_name, side_name,
                   (long long)wrong[side]);
        printf("DONE job=%d direction=%s side=%s bytes=%lld peak=%lld\n", work->number, direction_name,
               side_name, bytes, besides);
    }
    fflush(stdout);
}

/* Gives the file all its bytes, whatever was written before. */
static void write_file(Work *work) {
    work->generation++;
    fill(work, &work->block);
    block_io(work, WRITE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Memory at the beginning of a page. What malloc gives depends on what the library has allocated and
 * freed before, and copying to some places takes a fifth longer than to others. */
static char *pages(size_t bytes) {
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_posix(start != MAP_FAILED, "memory");
    return start;
}

static Work begin(const char *path, const Job *job, int number) {
    Work work = {.number = number, .path = path, .job = job, .own = make_pattern(job, rank, size)};
    work.block = make_block_pattern(&work.own);
    work.buffer = pages(work.own.bytes + 64);
    work.posix = open(path, O_RDWR | O_CREAT, 0600);
    check_posix(work.posix >= 0, path);
    write_file(&work);
    if (!is_step(&work)) open_file(&work);
    return work;
}

static void end(Work *work, const char *path) {
    if (!is_step(work)) check(MPI_File_close(&work->file), "close");
    close(work->posix);
    munmap(work->buffer, work->own.bytes + 64);
    free_pattern(&work->own);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) check_posix(unlink(path) == 0, path);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Seconds of one call in each direction, told by a part of the problem: the better of two, since the first
 * has costs that do not grow. */
static void probe(const char *path, const Job *job, int factor, double *seconds) {
    Job small = shrink(job, factor);
    Work work = begin(path, &small, -1);
    Pattern whole = make_pattern(job, rank, size);
    for (Direction direction = WRITE; direction <= READ; direction++) {
        double one = measure(&work, THROUGH_MPI, direction).seconds;
        double other = measure(&work, THROUGH_MPI, direction).seconds;
        seconds[direction] = (one < other ? one : other) * whole.file_bytes / work.own.file_bytes;
    }
    free_pattern(&whole);
    end(&work, path);
}

/* Only what a 64th part tells to be too long, but not by far, is told again by an 8th part. */
static void estimate(const char *path, const Job *job, double *seconds) {
    probe(path, job, 4, seconds);
    double longest = seconds[WRITE] > seconds[READ] ? seconds[WRITE] : seconds[READ];
    if (longest > job->budget && longest < 4 * job->budget) probe(path, job, 2, seconds);
}

/* Runs of the rank that has most. */
static int64_t most_runs(const Job *job) {
    Pattern pattern = make_pattern(job, rank, size);
    int64_t runs = run_count(&pattern), most;
    MPI_Allreduce(&runs, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    free_pattern(&pattern);
    return most;
}

static void run(const char *path, const Job *job, int number) {
    double seconds[] = {0, 0};
    int64_t runs = most_runs(job);
    if (job->level == 0 && runs > RUNS_MAX) {
        for (Direction direction = WRITE; rank == 0 && direction <= READ; direction++)
            printf("SKIP job=%d direction=%s calls=%lld\n", number, DIRECTIONS[direction], (long long)runs);
        return;
    }
    /* A small part of a step is no estimate: most of it does not grow. */
    if (job->probe && strcmp(job->workload, "step")) estimate(path, job, seconds);
    Work work = begin(path, job, number);
    for (Direction direction = WRITE; direction <= READ; direction++) {
        if (seconds[direction] > job->budget) {
            if (rank == 0)
                printf("SKIP job=%d direction=%s estimate=%.1f\n", number, DIRECTIONS[direction],
                       seconds[direction]);
            continue;
        }
        /* Reads are right or wrong by themselves. */
        if (direction == READ) write_file(&work);
        measure_all(&work, direction);
    }
    end(&work, path);
}

static Job parse(char *text) {
    Job job = {.bytes = 0, .seed = 1, .transfers = 1, .level = 3, .calls = 5, .budget = 1e9};
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        char *number = strchr(word, '=');
        if (!number) refuse("a job has words key=value");
        *number++ = 0;
        long long as_int = atoll(number);
        if (!strcmp(word, "workload")) snprintf(job.workload, sizeof job.workload, "%s", number);
        else if (!strcmp(word, "bytes")) job.bytes = as_int;
        else if (!strcmp(word, "block")) job.block = as_int;
        else if (!strcmp(word, "edge")) job.edge = as_int;
        else if (!strcmp(word, "elements")) job.elements = as_int;
        else if (!strcmp(word, "x")) job.x = as_int;
        else if (!strcmp(word, "y")) job.y = as_int;
        else if (!strcmp(word, "rest")) job.rest = as_int;
        else if (!strcmp(word, "seed")) job.seed = as_int;
        else if (!strcmp(word, "transfers")) job.transfers = (int)as_int;
        else if (!strcmp(word, "level")) job.level = (int)as_int;
        else if (!strcmp(word, "calls")) job.calls = (int)as_int;
        else if (!strcmp(word, "probe")) job.probe = (int)as_int;
        else if (!strcmp(word, "budget")) job.budget = atof(number);
        else refuse("a job has a word that is not known");
    }
    if (job.transfers < 1 || job.calls < 0 || (job.level != 0 && job.level != 2 && job.level != 3))
        refuse("a job has a number that cannot be");
    return job;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) refuse("arguments: PATH JOB...");
    for (int i = 2; i < argc; i++) {
        Job job = parse(argv[i]);
        run(argv[1], &job, i - 2);
    }
    MPI_Finalize();
    return 0;
}
