variable "name" {
  description = "Id of the instance; each cluster's name begins with it."
  type        = string
}

variable "first" {
  description = "The cluster that takes transactions until a failover."
  type        = object({ zone = string, kms_key = optional(string), min_nodes = number, max_nodes = number })
}

variable "replicas" {
  description = "Further clusters, by the end of their names."
  type        = map(object({ zone = string, kms_key = optional(string), min_nodes = optional(number), max_nodes = optional(number) }))
  default     = {}
}

variable "failed_over_to" {
  description = "The replica that takes transactions since a failover; null: there was none."
  type        = string
  default     = null
}
