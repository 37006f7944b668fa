/* The process that keeps the namespaces of a pod alive: it waits, and reaps orphaned processes. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }

int main(void) {
  struct sigaction child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  signal(SIGINT, end);
  signal(SIGTERM, end);
  sigaction(SIGCHLD, &child, 0);
  for (;;) pause();
}
