package combinequeue

// ShardOf is for tests that need to know which contributions share a row.
var ShardOf = shardOf
