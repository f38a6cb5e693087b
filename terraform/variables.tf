variable "project" {
  description = "Project that holds the Bigtable instance."
  type        = string
}

variable "instance" {
  description = "Name of the Bigtable instance."
  type        = string
}

variable "zone" {
  description = "Zone of the one cluster that takes transactional traffic."
  type        = string
}

variable "min_nodes" {
  description = "Fewest nodes that autoscaling keeps."
  type        = number
  default     = 1
}

variable "max_nodes" {
  description = "Most nodes that autoscaling adds."
  type        = number
  default     = 3
}

variable "cpu_target" {
  description = "CPU load, in percent, at which autoscaling adds nodes."
  type        = number
  default     = 60
}

variable "deletion_protection" {
  description = "Whether terraform refuses to destroy the instance."
  type        = bool
  default     = true
}
