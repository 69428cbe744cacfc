"""`kafka-share doctor`: why nothing arrives. `facts` asks the cluster, `diagnosis` judges, `command` shows."""
