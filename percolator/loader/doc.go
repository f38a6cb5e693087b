// Package loader brings many items into a store by transactions, as fast as the store takes them:
// the loader transactions of the paper, by which a crawl enters the index (section 3.1).
//
//	cfg := loader.Config{Name: "orders of march"}
//	report, err := loader.Load(ctx, client, cfg, loader.Job[Order]{
//		Source: loader.Replay(readOrders, nil),
//		Write: loader.Each(func(ctx context.Context, tx *percolator.Txn, o Order) error {
//			return Orders.Set(tx, o.ID, o)
//		}),
//	})
//
// # Speed
//
// One transaction per item would wait for the oracle twice, for the read, for every prewrite and
// for the commit. Load runs many transactions at once, and each takes as many items as are waiting:
// they share the two timestamps, the read and the commit point, and their second phase takes few
// requests. When the source is slow, an item still goes at once.
//
// # What is promised
//
// When Load returns nil, every item that the source has yielded is committed or was given to
// Job.Failed. Items are written in no particular order, and an item may be written more than once,
// so Write must be idempotent. That happens after a crash, after a commit whose outcome is unknown,
// and when two loaders share a name.
//
// With a name, Load stores (percolator_meta, row "load:NAME") the position up to which every item
// is done. The position never lies beyond an item that was neither committed nor reported. The next
// Load under the name, in any process, asks the source to begin there. A finished load begins anew
// the next time. Of two loaders under one name the later one continues, and the earlier one ends
// with ErrTakenOver when it next saves its position.
//
// # Failures
//
// Load divides a transaction that conflicts, or in which one item fails, until the item is alone.
// It tries that item up to Config.MaxAttempts times and then gives it to Job.Failed, which decides
// whether the load continues. Errors of the store or the oracle are no item's fault: Load tries
// again with growing pauses, and ends, to be resumed, after an outage of Config.OutageTimeout. It
// takes errors that carry a gRPC status for the store's, even when Write returns them.
//
// Load does not catch panics in functions of the job.
package loader
