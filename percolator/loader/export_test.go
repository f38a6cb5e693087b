package loader

// InBatches is cfg with as many rows written at once.
func (cfg BulkConfig) InBatches(rows int64) BulkConfig {
	cfg.batchRows = rows
	return cfg
}
