/* ranks: 4 */
/* mpis: all */
/* pario: yes */
/* calls: at least 6 */
/* env: PARIO_STATS=trace:recorded.jsonl */
/* leaves: recorded.jsonl */
/* after: cat recorded.jsonl */
/* after: grep -o "rank":[0-9],"call":"[a-z_]*","strategy":"[a-z-]*" recorded.jsonl */
/* after: grep -o "rank":[0-9],"what":"write" recorded.jsonl */
/* expect: recorded_first */
/* expect: recorded_second */
/* expect: "ranks":4,"nodes":1,"node_of_rank":[0,0,0,0] */
/* expect: "of_all_ranks":true */
/* expect: {"name":"pario_statistics","value":"trace:recorded.jsonl","origin":"environment"} */
/* expect: {"name":"cb_node","value":"3","origin":"program","reason":"unknown hint */
/* expect: "rank":0,"call":"write_all","strategy":"two-phase" */
/* expect: "rank":3,"call":"write_all","strategy":"two-phase" */
/* expect: "rank":3,"call":"write","strategy":"direct" */
/* expect: "rank":3,"what":"write" */
/*
 * PARIO_STATS with the name of a file: each close appends one line of JSON with every call and
 * every storage access of every rank, whichever rank made them.
 */
#include "client.h"

enum { PIECE = 64, COUNT = 4096 };

int main(int argc, char **argv) {
    static char data[PIECE * COUNT];
    const int amode = MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE;
    MPI_Datatype filetype;
    MPI_Info info;
    MPI_File file;
    client_start(&argc, &argv);
    memset(data, 'a' + client_rank, sizeof data);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_node", "3"));
    OK(MPI_Type_vector(COUNT, PIECE, PIECE * client_size, MPI_BYTE, &filetype));
    OK(MPI_Type_commit(&filetype));
    for (int round = 0; round < 2; round++) {
        const char *name = scratch(round == 0 ? "recorded_first" : "recorded_second");
        OK(MPI_File_open(MPI_COMM_WORLD, name, amode, info, &file));
        OK(MPI_File_set_view(file, (MPI_Offset)client_rank * PIECE, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
        OK(MPI_File_write_all(file, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        if (client_rank == 3) OK(MPI_File_write_at(file, 10, data, 5, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_close(&file));
    }
    OK(MPI_Type_free(&filetype));
    OK(MPI_Info_free(&info));
    return client_end();
}
