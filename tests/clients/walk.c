/* Uses a server through hiredis: KEYLATCH_SERVERS=host:port walk */

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the walk unless the reply is of the type and, for words, is the text. */
static void expect(redisContext *con, redisReply *reply, int type, const char *text, long long number) {
    if (reply == NULL || reply->type != type || (text != NULL && strncmp(reply->str, text, strlen(text)) != 0) ||
        (type == REDIS_REPLY_INTEGER && reply->integer != number)) {
        fprintf(stderr, "FAILED: hiredis: expected %d '%s' %lld, got %d '%s'\n", type, text ? text : "", number,
                reply ? reply->type : -1, reply && reply->str ? reply->str : con->errstr);
        exit(1);
    }
    freeReplyObject(reply);
}

#define SAYS(type, text, number, ...) expect(con, redisCommand(con, __VA_ARGS__), REDIS_REPLY_##type, text, number)

static redisReply *next(redisContext *con) {
    redisReply *reply = NULL;
    redisGetReply(con, (void **)&reply);
    return reply;
}

int main(void) {
    char host[256];
    int port;
    const char *place = getenv("KEYLATCH_SERVERS");
    if (place == NULL || sscanf(place, "%255[^:]:%d", host, &port) != 2) return 2;
    redisContext *con = redisConnect(host, port);
    redisContext *listener = redisConnect(host, port);
    if (con == NULL || con->err || listener == NULL || listener->err) return 1;

    SAYS(STATUS, "OK", 0, "FLUSHALL");
    SAYS(STATUS, "OK", 0, "SET %s %b", "bytes", "\0\r\n\377", (size_t)4);
    redisReply *bytes = redisCommand(con, "GET bytes");
    if (bytes->len != 4 || memcmp(bytes->str, "\0\r\n\377", 4) != 0) return 1;
    freeReplyObject(bytes);
    SAYS(NIL, NULL, 0, "GET missing");
    SAYS(INTEGER, NULL, 1, "SETNX lock 1");
    SAYS(INTEGER, NULL, 0, "SETNX lock 2");
    SAYS(STRING, "1", 0, "GETSET lock 2");
    SAYS(INTEGER, NULL, 1, "EXPIRE lock 100");
    SAYS(INTEGER, NULL, 100, "TTL lock");
    SAYS(ERROR, "ERR value is not an integer", 0, "INCR bytes");
    SAYS(ERROR, "ERR unknown command", 0, "NOSUCH");

    for (int each = 0; each < 1000; each++) redisAppendCommand(con, "INCR n");
    for (int each = 1; each <= 1000; each++) expect(con, next(con), REDIS_REPLY_INTEGER, NULL, each);

    SAYS(STATUS, "OK", 0, "MULTI");
    SAYS(STATUS, "QUEUED", 0, "INCR n");
    SAYS(STATUS, "QUEUED", 0, "GET n");
    redisReply *all = redisCommand(con, "EXEC");
    if (all->type != REDIS_REPLY_ARRAY || all->elements != 2 || all->element[0]->integer != 1001) return 1;
    freeReplyObject(all);

    SAYS(INTEGER, NULL, 1006, "EVAL %s 1 n 5", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
    SAYS(ERROR, "NOSCRIPT", 0, "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0");

    expect(listener, redisCommand(listener, "SUBSCRIBE news"), REDIS_REPLY_ARRAY, NULL, 0);
    SAYS(INTEGER, NULL, 1, "PUBLISH news hello");
    redisReply *heard = next(listener);
    if (heard->elements != 3 || strcmp(heard->element[2]->str, "hello") != 0) return 1;
    freeReplyObject(heard);

    redisFree(listener);
    redisFree(con);
    printf("hiredis %d.%d.%d: well\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    return 0;
}
