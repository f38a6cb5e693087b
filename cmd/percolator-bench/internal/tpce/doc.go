// Package tpce is a workload after the one of section 3.3 of the paper, which is based on TPC-E: a firm of brokers whose
// customers order trades and look at their accounts, and a market exchange that executes the trades. It is TPC-E in small and
// not TPC-E: its figures must not be compared with results of that benchmark.
//
// As in the paper customers and market are emulated by the process that calls the library, indexes are laid out by hand, and
// the number of trades that are executed is what counts. The transactions:
//
//	trade-order        reads customer, account, security, holding and broker; writes the pending trade
//	trade-result       of the market exchange: settles the trade in account and holding, with the broker's commission
//	market-feed        of the market exchange: writes the prices of the securities that it has traded
//	customer-position  reads the accounts, the holdings and their prices
//	trade-status       reads the newest trades of an account
//
// The broker's commission and his count of trades are where many trades meet. The paper omits this write and says how it would
// be done: increments in a side table, and an aggregation. Here that is a choice (see [Commission]): through a combine queue
// (package observers/combinequeue), directly in the broker's row, or omitted.
//
// Amounts are whole cents, and every rounding is done once and kept, so that money is conserved to the cent: see [Firm.Audit].
package tpce
