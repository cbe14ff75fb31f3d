"""The optimizer: a service that finds which maintenance tables need, and workers that carry it out.

From the top: cli (the commands) > service (processes, the network) > views (status and explanations for users) > work
(measuring, planning and carrying out) and watch (tables that have changed) > scheduling (the state machine) > journal
(the durable state) > flow (values) > errors.
"""
