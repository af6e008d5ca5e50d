"""Locks of a home: file locks in a folder, leases with fencing tokens in a bucket."""
