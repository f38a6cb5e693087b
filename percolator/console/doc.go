// Package console is a web page on which to watch an instance and the processes that work on it:
// rates, latencies, locks, notifications, workers, the oracle, collection, and single rows as in
// Figure 4 of the paper.
//
// [NewHandler] returns an http.Handler for a program that has a client, usually a worker;
// "percolator ui" serves it by itself. What it needs is embedded in the package.
//
// # What it costs
//
// One poll serves every open page. A poll reads a few cells of percolator_meta, asks each server of
// the oracle for its status, and at every fifth turn counts the rows with notifications or locks of
// each table, at most [MaxCounted], those that unsettled entries of the journal name; without a
// journal that read scans whole tables. As often it counts the dead letters of export queues, at
// most [exportqueue.MaxCounted] of each: one request for each table that may hold some, which reads
// nothing of other tables. Each of the two takes at most a twentieth of the time: the more there is
// to read, the rarer it is. Each source of the poll has its own deadline, and the page names a
// source that does not answer. While no page is open, the poll runs every 10 s and counts once a
// minute, so that a viewer finds the last [History].
//
// # Who may look
//
// Without a password, only browsers on the same machine: the remote address is a loopback one, the
// request names a loopback host (a name rebound to 127.0.0.1 does not pass), and no proxy has
// marked it. With Config.Username and Config.Password, anyone who knows them; put TLS in front of
// it then. GET changes nothing. Changes (resolve a lock, retry or drop a parked cell) need
// Config.AllowChanges and a request from the console's own pages. Pages of other sites may link to
// the console; browsers say where a request comes from, and the console refuses all others of
// theirs.
//
// Pages show row keys, column names and error texts. They show values only with Config.ShowValues,
// one row at a time, on request.
//
// # Limits
//
// [MaxStreams] pages that are kept live; as many samples in memory as polls fit into [History],
// about 200 bytes each; forms of [MaxFormBytes]; [MaxListed] lines in a list. Every request to the
// store or the oracle ends after 10 s, a walk over the journal or the tables after a minute.
package console
