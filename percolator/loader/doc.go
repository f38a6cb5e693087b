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
// A transaction for each item waits: for the oracle twice, for the read, for every prewrite, for
// the commit. Load has many transactions under way, and each takes as many items as are waiting:
// they share the two timestamps, the read and the commit point, and their second phase travels in
// few requests. When the source is slow an item still goes at once.
//
// # What is promised
//
// Every item that the source yields is committed or given to Job.Failed, as long as Load returns
// nil. Items are written in no particular order, and an item may be written more than once: Write
// must be idempotent, so that writing an item that is in the store already is harmless. It happens
// after a crash, after a commit whose outcome is unknown, and when two loaders have one name.
//
// With a name, Load keeps in the store (percolator_meta, row "load:NAME") the position up to which
// every item has been dealt with. It never lies beyond an item that was neither committed nor
// reported. When Load is called again under the name, in any process, the source is asked to begin
// there. A load that has come to its end begins anew the next time. Of two loaders under one name
// the later one goes on, and the earlier one ends with ErrTakenOver when it saves its next
// position.
//
// # Failures
//
// A transaction that conflicts, or that one of its items makes fail, is divided until the item is
// alone; then that is tried up to Config.MaxAttempts times, and given to Job.Failed, which decides
// whether the load goes on without it. Errors of the store or the oracle are nobody's fault: what
// they hit is tried again with growing pauses, and when the store has not answered for
// Config.OutageTimeout the load ends, to be resumed. Errors that carry a gRPC status are taken for
// the store's, also when Write returns them.
//
// A panic in a function of the job is not caught.
package loader
