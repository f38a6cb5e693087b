// Package observers runs code when cells change: section 2.4 of the paper.
//
// A schema names columns whose writes notify. A program registers an observer for each of them and
// runs a [Worker]. When a transaction has written such a cell, some worker calls the observer with
// a new transaction. What the observer writes may notify other observers: a computation is a chain
// of small transactions.
//
//	r := observers.NewRegistry()
//	r.Observe("indexer", "documents", "contents",
//		func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
//			words := percolator.Cell{Table: "documents", Row: ch.Cell.Row, Column: "words"}
//			return tx.Set(words, count(ch.Value))
//		})
//	w, err := observers.NewWorker(client, r, observers.Config{Logger: slog.Default()})
//	err = w.Run(ctx) // until ctx ends; the logger learns what fails
//
// # What is guaranteed
//
//   - At most one run of an observer commits for each change of an observed cell
//     (docs/internals/PROTOCOL.md, I12). The run and its acknowledgment are one transaction: if it
//     does not commit, it has no effect and the worker calls the observer again.
//   - An observer eventually runs for every change, even if the writer or a worker dies at any
//     moment, as long as some worker runs and the observer does not fail for good.
//   - One run may handle several changes of a cell. It then sees the newest ("message collapsing").
//     For a change that arrives during a run, the observer runs again (I13).
//   - An observer runs in a later transaction than the one that notified it, so the two cannot keep
//     an invariant together. Whatever must hold at every instant belongs in the transaction that
//     writes.
//
// Effects outside the transaction (requests to other systems, counters in memory) happen once per
// attempt, not once per change.
//
// A weak column can only be notified ([percolator.Txn.Notify]), never written, and never conflicts.
// It has no acknowledgment: its observers run at least once after each notification, sometimes more
// often.
//
// # All workers take the same observers
//
// A worker erases a notification when every observer of the column that it knows has acknowledged
// it. Workers that take the same column must therefore register the same observers for it, by name.
//
// # Failures
//
// The worker repeats a run that fails, panics, conflicts or exceeds its [Timeout], with growing,
// jittered pauses. After Config.MaxAttempts it parks the cell for that observer: it stores an
// observer state in the row, and all workers skip the observer until the cell is notified again or
// an operator calls [Retry] or [Drop] ("percolator notify" on the command line). A worker that
// learns of the old notification late still makes one series of attempts. [ListParked] lists parked
// cells and reasons. The notification stays in the table, so a worker that dies while it parks a
// cell loses nothing (docs/internals/PROTOCOL.md, I19). A parked cell does not delay other cells.
// It delays the cell's other observers only while it runs: a worker runs the observers of one cell
// in sequence. The lock of another transaction, which may have died, parks nothing: the worker
// tries until it is gone.
//
// An observer whose runs cause each other without end fails nothing: the worker warns of it and
// slows it down ([Registry.Observe]).
//
// An observer that cannot do its work yet returns [Snooze]. The worker calls it again later and
// does not count a failure.
//
// # Batches
//
// [Registry.ObserveBatch] registers an observer that runs for many cells of its column in one
// transaction, with one read for all acknowledgments, one commit and two timestamps. When it fails
// the worker cuts the batch in halves until the bad cell is alone.
//
// # Which runs first
//
// A worker runs cells in the order in which they become ready. An observer can wait until others
// are idle ([After]), which saves runs however slow the machine is, and can go first
// ([HeadStart]).
//
// # Adding and removing observers
//
// A new observer runs for what is notified from then on; admin.Admin.BackfillObserver notifies the
// cells that existed before. admin.Admin.ForgetObserver deletes the acknowledgments of an observer
// that was removed. [NewWorker] refuses a registry that does not cover the observed columns of the
// schema, unless Config.Columns says which ones the worker takes.
//
// # Contention
//
// Of the observers that write one cell, all but one conflict and run again. The worker notices and
// runs fewer of them at once, down to one, so that a hot cell costs time rather than attempts. If
// that is too slow, notify the hot cell weakly, and let an observer of the weak column do the work
// once for many notifications.
//
// # Words
//
// A run is one call of an observer. The journal lists the transactions that notify: each client
// appends an entry for a transaction to a stream of its own before it commits. A look reads the
// rows that an entry names, and dispatches what is still notified there; a scan searches whole
// tables. The entry is settled when nothing of it is left to do. A worker adopts the streams of a
// client whose session has ended. A sweep searches all tables once a week. Package admin says more.
//
// # How soon an observer runs
//
// The worker dispatches what its own client writes at once. A client in another process hints: if
// no worker in its process takes the notification, it tells the oracle, and the oracle tells one
// worker that asks (coordination.Hints; percolator.Config.DisableHints turns it off). Both take
// milliseconds. A dying process, a change of the oracle's leader or overload can lose a
// notification on these paths. The journal then leads to it, however large the tables are: after 5
// s the writer's client checks what it wrote, and hints again; within 2 s of the end of that
// client's session (coordination.Sessions) a worker adopts its journal.
//
// # How work spreads
//
// A worker runs what its own client writes, unless it has a backlog: more than four ready cells, or
// a full batch of them, for each of its Config.Concurrency slots. It then hands the oldest cells to
// workers with idle slots, through the oracle (if that has coordination.Handover), each cell at
// most twice. It takes a cell back if the notification is still there after twice Config.Grace.
//
// A cell that a worker finds by a search may be in another worker's queue. So it leaves the cell
// alone for the Collapse, MaxWait and After of the observers, plus Config.Grace, plus as long as
// cells have lately waited in its own queue; not at all if the writer's session has ended.
//
// # Instances without a journal
//
// If Schema.DisableJournal is set, or the journal is building, workers search the tables. They find
// work within seconds after Config.Grace, unless passing the tables takes longer. A worker follows
// a change of that setting while it runs.
//
// A scanner starts in a random tablet at a random key. It locks the rows that it finds until their
// runs end, with the oracle if that keeps row locks. Where it meets another scanner's rows it goes
// elsewhere (section 2.4 of the paper).
//
// With Config.Partition, the workers that set it and take the same columns divide each table: each
// searches its own share, and the whole table in every sixteenth pass. While workers register and
// deregister, shares overlap or leave gaps for a moment. The others take over a dead worker's share
// when its session or lease (30 s) has ended and they have read the list, which takes up to 10 s
// more. Correctness does not depend on any of this. Partition saves reads of the same rows, but the
// share of a slow worker waits longer: docs/internals/BENCHMARKS.md.
//
// # What an idle worker costs
//
// With a journal it reads nothing of users' tables. One worker at a time lists the streams of the
// journal once a second, with one request for each, and asks the oracle twice a second whose
// sessions have ended. Each worker asks the oracle three times a minute for hints about writes of
// other processes and for their workers' backlog, and keeps each question open for 20 s.
//
// Without a journal, a scanner searches every 1.5 to 2.5 s (unless Config.ScanInterval says
// otherwise) and sends at most two requests that read rows for each observed table. Their filter
// passes only notifications and locks. That is at most 80 requests a minute for each scanner and
// table, 60 on average, and one for the boundaries of the table's tablets. Config.Partition reads
// the list of workers six times a minute (one read, one timestamp, and one question to an oracle
// that keeps sessions) and writes to it about every 100 s with sessions, at most six times a minute
// without.
//
// # Limits
//
// A worker uses Config.Concurrency + Config.Scanners + 3 goroutines, and up to 8 more for each
// scanner that resolves stranded locks. In memory it holds up to Config.QueueLength dispatched
// cells, as many that wait for another attempt or to be collapsed, and 8 found by looks and scans
// per concurrent run (at least 1,024): about 0.3 KB each plus the row key. It drops what does not
// fit; the notification stays in the table, and is found again when there is room. It remembers up
// to 8,192 each of finished cells, cells with a parked observer, cells that it leaves alone and
// cells in loops ([Registry.Observe]), up to Config.QueueLength cells that it has handed over
// lately, and 16,384 each of runs that notified cells and of runs in loops. A parked observer takes
// up to 1 KiB in its row, and makes each scan a little longer. A worker keeps rows locked while a
// scanner works on their page, and while a cell waits for its first attempt or runs, but for at
// most 20 s.
package observers
