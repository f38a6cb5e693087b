// Package console is a web page on which to watch an instance and the processes that work on it:
// rates, latencies, locks, notifications, workers, the oracle, collection, and single rows as in
// Figure 4 of the paper.
//
// [NewHandler] returns an http.Handler for a program that has a client, usually a worker;
// "percolator ui" serves it by itself. What it needs is embedded in the package.
//
// # What it costs
//
// One poll serves all who watch, and there is none while nobody does. A poll reads a few cells of
// percolator_meta, asks each server of the oracle for its status, and at every fifth turn reads at
// most [MaxListed] rows with notifications or locks of each table. That last read passes over whole
// tables, as the scan of a worker does; it takes at most a twentieth of the time, so the larger the
// tables, the rarer it is. Each source of the poll has a deadline of its own, and one that does not
// answer is shown as such.
//
// # Who may look
//
// Without a password only who is on the same machine: the remote address is a loopback one, the
// request names a loopback host (a name that was rebound to 127.0.0.1 does not pass), and no proxy
// has marked it. With Config.Username and Config.Password, whoever knows them; put TLS in front of
// it then. Nothing is changed by GET. What changes something (resolve a lock, retry or drop a
// parked cell) needs Config.AllowChanges and a request from the console's own pages.
//
// Pages show row keys, names of columns and texts of errors. Values are shown only with
// Config.ShowValues, one row at a time, when asked for.
//
// # Limits
//
// [MaxStreams] pages that are kept live; samples of the last [History] in memory, about 200 bytes
// each; forms of [MaxFormBytes]; [MaxListed] rows in a list. Every request to the store or the
// oracle ends after 10 s.
package console
