/* Sending, receiving and waiting on sockets for `DirectLine`, where the system has poll(2). */
#ifndef KS_DIRECT_LINE_H
#define KS_DIRECT_LINE_H

#ifdef _WIN32

#define KS_HAS_DIRECT_LINE 0
#include <stddef.h>
struct ks_waited { int fd; int wants_to_write; };
static long ks_send(int fd, const char *bytes, size_t count) { (void)fd; (void)bytes; (void)count; return -1; }
static long ks_receive(int fd, char *bytes, size_t count) { (void)fd; (void)bytes; (void)count; return -1; }
static int ks_wait(struct ks_waited *waited, int count, int timeout_ms) {
    (void)waited; (void)count; (void)timeout_ms; return -1;
}
static void ks_close(int fd) { (void)fd; }
static void ks_shut(int fd) { (void)fd; }
static void ks_drain(int fd) { (void)fd; }
static long long ks_now_ms(void) { return 0; }
static long ks_receive_framed(int fd, char *head, size_t head_count, char *data, size_t count) {
    (void)fd; (void)head; (void)head_count; (void)data; (void)count; return -1;
}

#else

#define KS_HAS_DIRECT_LINE 1
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: Python ignores SIGPIPE in every process */
#endif

#define KS_MOST_WAITED 64

struct ks_waited { int fd; int wants_to_write; };

/* Bytes that were taken; 0: none can be now; -1: the connection is of no use any more. */
static long ks_send(int fd, const char *bytes, size_t count) {
    for (;;) {
        ssize_t sent = send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) return (long)sent;
        if (errno == EINTR) continue;
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    }
}

/* The same for bytes that were received; the end of the stream is -1, too. */
static long ks_receive(int fd, char *bytes, size_t count) {
    for (;;) {
        ssize_t received = recv(fd, bytes, count, MSG_DONTWAIT);
        if (received > 0) return (long)received;
        if (received == 0) return -1;
        if (errno == EINTR) continue;
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    }
}

/* The same into two places, one behind the other. */
static long ks_receive_framed(int fd, char *head, size_t head_count, char *data, size_t count) {
    struct iovec parts[2];
    struct msghdr message;
    parts[0].iov_base = head;
    parts[0].iov_len = head_count;
    parts[1].iov_base = data;
    parts[1].iov_len = count;
    memset(&message, 0, sizeof message);
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    for (;;) {
        ssize_t received = recvmsg(fd, &message, MSG_DONTWAIT);
        if (received > 0) return (long)received;
        if (received == 0) return -1;
        if (errno == EINTR) continue;
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    }
}

/* Until one of them is ready, or the time has passed; -1: a signal came. */
static int ks_wait(struct ks_waited *waited, int count, int timeout_ms) {
    struct pollfd fds[KS_MOST_WAITED];
    for (int i = 0; i < count; i++) {
        fds[i].fd = waited[i].fd;
        fds[i].events = waited[i].wants_to_write ? POLLIN | POLLOUT : POLLIN;
        fds[i].revents = 0;
    }
    return poll(fds, (nfds_t)count, timeout_ms);
}

static void ks_close(int fd) { close(fd); }

static void ks_shut(int fd) { shutdown(fd, SHUT_RDWR); }

/* Whatever is there is read, and forgotten. */
static void ks_drain(int fd) {
    char bytes[64];
    (void)ks_receive(fd, bytes, sizeof bytes);
}

/* For spans of time only. */
static long long ks_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
#endif
