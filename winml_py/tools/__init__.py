"""What is built on the public classes: conversion, optimising, measuring, diagnosing."""
