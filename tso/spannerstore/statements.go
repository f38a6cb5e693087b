package spannerstore

const (
	table         = "PercolatorOracle"
	sessionsTable = "PercolatorOracleSessions"
)

// Statements returns the statements that create what oracles keep in a Spanner database, each of
// which does nothing if that is there already:
//
//   - A table of records, two rows each, which every write replaces in one transaction. The row of
//     kind "state" is the record, the one of kind "witness" repeats its version, epoch and mark.
//     They agree unless one of them was edited or deleted.
//   - A table of the ids of open sessions, one row each.
func Statements() []string {
	return []string{`CREATE TABLE IF NOT EXISTS PercolatorOracle (
  Name STRING(128) NOT NULL,
  Kind STRING(16) NOT NULL,
  Version INT64 NOT NULL,
  Nonce STRING(64),
  Epoch INT64 NOT NULL,
  Holder STRING(128),
  Address STRING(512),
  LeaseNanos INT64,
  HighWater INT64 NOT NULL,
) PRIMARY KEY (Name, Kind)`, `CREATE TABLE IF NOT EXISTS PercolatorOracleSessions (
  Name STRING(128) NOT NULL,
  Session STRING(64) NOT NULL,
) PRIMARY KEY (Name, Session)`}
}
