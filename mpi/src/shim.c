/* What Taillight asks of MPI, as functions: in mpi.h much of it are macros, which differ from one MPI to another.
 * No call blocks: Open MPI spins in those that do. All answer 0, or an error code of MPI, but for those at the end,
 * which ask the kernel about a connection. */

#include <arpa/inet.h>
#include <mpi.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TAG = 4711 };

int tl_init(int *rank, int *size)
{
    int provided, there = 0;
    int wrong = MPI_Initialized(&there);
    if (!wrong && !there)
        wrong = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    /* A rank that is gone is an answer, not the end of the others. */
    if (!wrong)
        wrong = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!wrong)
        wrong = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    return wrong ? wrong : MPI_Comm_size(MPI_COMM_WORLD, size);
}

int tl_finalize(void)
{
    return MPI_Finalize();
}

/* Ends all ranks that are still there; before MPI has started, this process, which its launcher does not let pass. */
void tl_abort(int code)
{
    int there = 0;
    if (MPI_Initialized(&there) || !there)
        _exit(code);
    MPI_Abort(MPI_COMM_WORLD, code);
}

/* Name of the host, at most `room` bytes with the zero. */
int tl_host(char *name, int room)
{
    char all[MPI_MAX_PROCESSOR_NAME + 1];
    int length = 0, wrong = MPI_Get_processor_name(all, &length);
    if (wrong)
        return wrong;
    all[length] = 0;
    strncpy(name, all, (size_t)room - 1);
    name[room - 1] = 0;
    return 0;
}

/* Begins to send; `request` is to be asked by tl_done, and the bytes stay until it says so. */
int tl_send(const void *bytes, int length, int to, void **request)
{
    MPI_Request *made = malloc(sizeof *made);
    int wrong = made ? MPI_Isend(bytes, length, MPI_BYTE, to, TAG, MPI_COMM_WORLD, made) : MPI_ERR_OTHER;
    if (wrong)
        free(made);
    else
        *request = made;
    return wrong;
}

/* Whether it is sent or received; then the request is gone. */
int tl_done(void *request, int *done)
{
    int wrong = MPI_Test(request, done, MPI_STATUS_IGNORE);
    if (wrong || *done)
        free(request);
    return wrong;
}

/* The length of the next message of a rank; -1 where there is none. */
int tl_probe(int from, int *length)
{
    MPI_Status status;
    int there = 0, wrong = MPI_Iprobe(from, TAG, MPI_COMM_WORLD, &there, &status);
    *length = -1;
    return wrong || !there ? wrong : MPI_Get_count(&status, MPI_BYTE, length);
}

/* Begins to take that message, as tl_send: of a large one only the begin is there, and its sender may stand still. */
int tl_receive(void *bytes, int length, int from, void **request)
{
    MPI_Request *made = malloc(sizeof *made);
    int wrong = made ? MPI_Irecv(bytes, length, MPI_BYTE, from, TAG, MPI_COMM_WORLD, made) : MPI_ERR_OTHER;
    if (wrong)
        free(made);
    else
        *request = made;
    return wrong;
}

static int named(const struct sockaddr_storage *end, socklen_t length, char *text, size_t room)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int numeric = NI_NUMERICHOST | NI_NUMERICSERV;
    if (end->ss_family != AF_INET && end->ss_family != AF_INET6)
        return 1;
    if (getnameinfo((const struct sockaddr *)end, length, host, sizeof host, port, sizeof port, numeric))
        return 1;
    return snprintf(text, room, "%s %s", host, port) >= (int)room;
}

/* Both ends of a connected TCP socket, as `ADDRESS PORT`; not 0 where `fd` is none. */
int tl_ends(int fd, char *own, char *other, int room)
{
    struct sockaddr_storage here, there;
    socklen_t here_length = sizeof here, there_length = sizeof there, length = sizeof(int);
    int type = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) || type != SOCK_STREAM)
        return 1;
    if (getsockname(fd, (struct sockaddr *)&here, &here_length))
        return 1;
    if (getpeername(fd, (struct sockaddr *)&there, &there_length))
        return 1;
    return named(&here, here_length, own, (size_t)room) || named(&there, there_length, other, (size_t)room);
}

/* Has the kernel ask the other end of a connection for life each second, or no more. So many questions may stay open
 * that the kernel does not give the connection up first. */
int tl_ask(int fd, int on)
{
    int second = 1, many = 127;
    return setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second) ||
           setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second) ||
           setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &many, sizeof many) ||
           setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* Milliseconds since the kernel of the other end answered; -1 where the connection is over. */
long tl_silent_ms(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || info.tcpi_state != TCP_ESTABLISHED)
        return -1;
    return (long)info.tcpi_last_ack_recv;
}
