/* A part of replay.c, with its helpers: what waits at the gate. */
static double waited_ms(void *ctx, size_t count, int captured) {
    double from = now_ns();
    stop(coll_api(ctx, NULL, count, captured));
    return (now_ns() - from) / 1e6;
}

static double send_waited_ms(void *ctx, const char *func, size_t count) {
    char event[112] = {0};
    put_text(event, 24, func);
    put64(event, 32, count);
    put_text(event, 40, "ncclFloat32");
    double from = now_ns();
    stop(start(ctx, P2P_API, NULL, event));
    return (now_ns() - from) / 1e6;
}

/* Iterations of a small launch and two large ones, of which the bytes go `late_ms` after: how long each call took. */
static void gate(int late_ms) {
    int mask = 0;
    void *ctx = init(84, 2, 0, &mask);
    void *(*process)(void) = (void *(*)(void))dlsym(library, "pls_process");
    uint64_t (*end_iteration)(void *) = (uint64_t(*)(void *))dlsym(library, "pls_end_iteration");
    const char *as = getenv("REPLAY_AS");
    const char *rest_ms = getenv("REPLAY_REST_MS");
    for (int i = 0; i < 6; i++) {
        if (rest_ms)
            usleep((useconds_t)atoi(rest_ms) * 1000);
        double first = waited_ms(ctx, 10, 0), second, third;
        if (as && strcmp(as, "graph") == 0)
            second = waited_ms(ctx, 1000000, 1);
        else if (as)
            second = send_waited_ms(ctx, as, 1000000);
        else
            second = waited_ms(ctx, 1000000, 0);
        coll(ctx, NULL, "AllReduce", 1000000, "ncclFloat32");
        third = as ? 0 : waited_ms(ctx, 1000000, 0);
        coll(ctx, NULL, "AllReduce", 1000000, "ncclFloat32");
        void *op = proxy_op(ctx, NULL, getpid(), 0, 1, 1);
        step(ctx, op, 0, 1, 100000); /* the rest of an earlier burst */
        usleep((useconds_t)late_ms * 1000);
        step(ctx, op, 1, 1, 7900000);
        if (!getenv("REPLAY_UNMARKED"))
            end_iteration(process());
        printf("%s[%.1f, %.1f, %.1f]", i ? ", " : "[", first, second, third);
        fflush(stdout);
    }
    printf("]\n");
}
