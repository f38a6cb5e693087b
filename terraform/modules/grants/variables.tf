variable "tables" {
  description = "Names of the schema's tables and of their indexes (TABLE.INDEX), without percolator_meta and percolator_journal."
  type        = list(string)
}

variable "worker_tables" {
  description = "Tables of the service account worker, each with its indexes. [\"*\"]: all."
  type        = list(string)
  default     = ["*"]
}

variable "worker_members" {
  description = "Further members with a worker's rights, and their tables."
  type        = map(list(string))
  default     = {}
}

variable "reader_members" {
  description = "Members that only read, and their tables."
  type        = map(list(string))
  default     = {}
}

variable "operator_members" {
  description = "Members with a worker's rights on every table, which also see the instance's configuration."
  type        = list(string)
  default     = []
}

variable "oracle_store" {
  description = "Where the oracle keeps its record: spanner or bigtable."
  type        = string
  default     = "spanner"
}

variable "journaled" {
  description = "Whether there is a percolator_journal."
  type        = bool
  default     = true
}
